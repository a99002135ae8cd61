"""Aerial pictures parted into kinds of land by DeepLabV3 (torchvision); the cause fetches all scores and compares them on the host.

The fix takes the best kind on the GPU and fetches one byte a pixel.
"""

# causes: pageable_copy, idle
import torch
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, KINDS, BATCHES = 8, 512, 7, 4


def make_model() -> nn.Module:
    model = torchvision.models.segmentation.deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=KINDS
    )
    return model.eval().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)


def draw_pictures() -> list[torch.Tensor]:
    """Batches of pictures as bytes in pinned memory."""
    shape = (BATCH, SIDE, SIDE, 3)
    return [torch.randint(256, shape, dtype=torch.uint8).pin_memory() for _ in range(BATCHES)]


def find_scores(model: nn.Module, pictures: torch.Tensor) -> torch.Tensor:
    """Scores of the kinds for each pixel: (batch, kinds, rows, columns)."""
    pixels = pictures.to(DEVICE, non_blocking=True).permute(0, 3, 1, 2).bfloat16()
    return model((pixels - 120) / 60)["out"]


def choose_on_host(scores: torch.Tensor) -> torch.Tensor:
    return scores.float().cpu().argmax(1).byte()


def choose_on_gpu(scores: torch.Tensor) -> torch.Tensor:
    return scores.argmax(1).byte().cpu()


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model, batches = make_model(), draw_pictures()
    areas = torch.zeros(KINDS, dtype=torch.long)
    done = 0
    while turns.step():
        scores = find_scores(model, batches[done % BATCHES])
        kinds = choose_on_host(scores) if turns.planted else choose_on_gpu(scores)
        areas += torch.bincount(kinds[:, ::8, ::8].flatten(), minlength=KINDS)
        done += 1
