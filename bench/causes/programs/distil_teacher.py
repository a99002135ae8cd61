"""A small ViT that learns from a large one (timm); the cause runs the teacher outside of autocast, in fp32.

The fix runs it in bfloat16, as the student.
"""
# causes: no_tensor_cores
import timm
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, HEAT = 64, 224, 2.0


def run(turns: Turns) -> None:
    use_gpu(turns)
    teacher = timm.create_model("vit_base_patch16_224").to(DEVICE).eval()
    student = timm.create_model("vit_small_patch16_224").to(DEVICE)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4, fused=True)
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    while turns.step():
        has_autocast = not turns.planted
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, enabled=has_autocast):
            wanted = teacher(images)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = student(images)
        wanted = (wanted.float() / HEAT).softmax(-1)
        found = (found.float() / HEAT).log_softmax(-1)
        update(optimizer, nn.functional.kl_div(found, wanted, reduction="batchmean") * HEAT**2)
