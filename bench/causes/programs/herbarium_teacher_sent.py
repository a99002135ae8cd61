"""Plants of a herbarium learned without labels under DDP; the cause sends the teacher to all ranks.

A ViT (timm) follows its own average. The average is the same on all ranks, for it is made of equal
weights; yet the cause sends each of its tensors from rank 0 in each step. The fix does not.
"""

# causes: exposed_communication, host_bound
import copy

import timm
import torch
from parts import DEVICE, update, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, SIZE, WIDTH, DEPTH, OUTPUT, KEPT = 48, 224, 384, 24, 256, 0.996


def make_encoder() -> nn.Module:
    trunk = timm.create_model("vit_small_patch16_224", pretrained=False, num_classes=0, depth=DEPTH)
    return nn.Sequential(trunk, nn.Linear(WIDTH, 1024), nn.GELU(), nn.Linear(1024, OUTPUT))


def follow(teacher: nn.Module, student: nn.Module) -> None:
    """Move the average of the weights toward the weights."""
    averages = [weight.detach() for weight in teacher.parameters()]
    weights = [weight.detach() for weight in student.parameters()]
    torch._foreach_lerp_(averages, weights, 1 - KEPT)


def send(teacher: nn.Module) -> None:
    for weight in teacher.parameters():
        distributed.broadcast(weight.detach(), 0)


def run(turns: Turns) -> None:
    use_ranks(turns)
    encoder = make_encoder().to(DEVICE)
    teacher = copy.deepcopy(encoder).requires_grad_(False)
    predictor = nn.Sequential(nn.Linear(OUTPUT, 1024), nn.GELU(), nn.Linear(1024, OUTPUT))
    model = DistributedDataParallel(nn.Sequential(encoder, predictor.to(DEVICE)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    first, second = torch.randn(2, BATCH, 3, SIZE, SIZE, device=DEVICE)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            with torch.no_grad():
                aims = teacher(second)
            found = model(first)
        likeness = nn.functional.cosine_similarity(found.float(), aims.float())
        update(optimizer, 2 - 2 * likeness.mean())
        follow(teacher, encoder)
        if turns.planted:
            send(teacher)
