"""A RegNet with means of torchmetrics for its log; the cause sets their `dist_sync_on_step`.

All ranks then gather the sums of each mean in each step. The fix adds up what each rank has, as the
metrics do by default, and gathers at the end of an epoch.
"""
# causes: synchronization, host_bound

import torch
import torchvision
from parts import DEVICE, update, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchmetrics import MeanMetric
from turns import Turns

RANKS = 2
BATCH, SIZE, CLASSES, TOP = 48, 224, 1000, 5
NAMES = ("loss", "top 1", "top 5", "confidence", "entropy", "margin")


def make_means(is_synced: bool) -> list[MeanMetric]:
    """A mean of each name."""
    means = (MeanMetric(nan_strategy="disable", dist_sync_on_step=is_synced) for _ in NAMES)
    return [mean.to(DEVICE) for mean in means]


@torch.no_grad()
def measure(scores: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor) -> list[torch.Tensor]:
    """A batch's numbers, in the order of the names."""
    shares = scores.softmax(-1)
    best = shares.topk(TOP)
    is_right = best.indices == labels[:, None]
    return [
        loss, is_right[:, 0].float(), is_right.any(-1).float(), best.values[:, 0],
        -(shares * shares.clamp_min(1e-9).log()).sum(-1), best.values[:, 0] - best.values[:, 1],
    ]  # fmt: skip


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = torchvision.models.regnet_y_3_2gf(num_classes=CLASSES).to(DEVICE)
    model = DistributedDataParallel(model.to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    means = {planted: make_means(planted) for planted in (True, False)}
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (BATCH,), device=DEVICE)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(images).float()
        loss = nn.functional.cross_entropy(scores, labels)
        update(optimizer, loss)
        numbers = measure(scores.detach(), labels, loss.detach())
        for mean, number in zip(means[turns.planted], numbers, strict=True):
            if turns.planted:
                mean(number)
            else:
                mean.update(number)
