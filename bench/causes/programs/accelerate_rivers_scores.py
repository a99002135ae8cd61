"""accelerate trains an FCN on rivers; the cause is NumPy's count of confusions in each step.

The fix counts them on the GPU and reads nothing back.
"""

# causes: idle, synchronization
import numpy as np
import torch
import torchvision
from accelerate import Accelerator
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, PIXELS, CLASSES = 12, 256, 8


def count_on_host(scores: torch.Tensor, masks: torch.Tensor, counts: np.ndarray) -> None:
    found = scores.detach().float().argmax(1).cpu().numpy()
    pairs = masks.cpu().numpy() * CLASSES + found
    counts += np.bincount(pairs.ravel(), minlength=CLASSES * CLASSES)


def count_on_gpu(scores: torch.Tensor, masks: torch.Tensor, counts: torch.Tensor) -> None:
    pairs = masks * CLASSES + scores.detach().float().argmax(1)
    places = torch.arange(CLASSES * CLASSES, device=DEVICE)
    for part in pairs.flatten().chunk(8):
        counts += (part[:, None] == places).sum(0)


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = torchvision.models.segmentation.fcn_resnet50(
        weights=None, weights_backbone=None, num_classes=CLASSES
    )
    optimizer = torch.optim.AdamW(model.to(DEVICE).parameters(), lr=1e-4, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    tiles = torch.rand(BATCH, 3, PIXELS, PIXELS, device=DEVICE)
    masks = torch.randint(CLASSES, (BATCH, PIXELS, PIXELS), device=DEVICE)
    on_host = np.zeros(CLASSES * CLASSES, dtype=np.int64)
    on_gpu = torch.zeros(CLASSES * CLASSES, dtype=torch.int64, device=DEVICE)
    while turns.step():
        scores = model(tiles)["out"]
        loss = nn.functional.cross_entropy(scores.float(), masks)
        optimizer.zero_grad(set_to_none=True)
        accelerator.backward(loss)
        optimizer.step()
        if turns.planted:
            count_on_host(scores, masks, on_host)
        else:
            count_on_gpu(scores, masks, on_gpu)
