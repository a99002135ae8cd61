"""Objects in streets found as by CenterNet (torchvision); the cause copies each tensor of each image by itself.

That is the loop of torchvision's detection references. The fix joins those of a batch on the CPU,
and copies one pinned tensor for each key.
"""
# causes: many_small_copies, synchronization
import random

import torch
import torchvision
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, STRIDE, CLASSES, MOST, STORED = 64, 256, 8, 80, 12, 8
SIDE = SIZE // STRIDE

Target = dict[str, torch.Tensor]


def draw_target(place: int) -> Target:
    """Objects of an image as a reader of COCO gives them."""
    objects = random.randint(1, MOST)
    sizes = 8 + 56 * torch.rand(objects, 2)
    corners = torch.rand(objects, 2) * (SIZE - sizes)
    return {
        "boxes": torch.cat([corners, corners + sizes], 1),
        "labels": torch.randint(CLASSES, (objects,)),
        "area": sizes.prod(1),
        "iscrowd": torch.zeros(objects, dtype=torch.int64),
        "difficult": torch.zeros(objects, dtype=torch.int64),
        "weight": torch.ones(objects),
        "image": torch.full((objects,), place),
    }


def join(targets: list[Target]) -> Target:
    return {key: torch.cat([target[key] for target in targets]) for key in targets[0]}


class CenterNet(nn.Module):
    """A heat map of each class, and the size of an object at each place."""

    def __init__(self) -> None:
        super().__init__()
        body = torchvision.models.resnet34()
        self.body = nn.Sequential(*list(body.children())[:-2])
        self.rise = nn.Sequential(
            nn.ConvTranspose2d(512, 256, 4, 2, 1), nn.BatchNorm2d(256), nn.ReLU(),
            nn.ConvTranspose2d(256, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Conv2d(128, CLASSES + 2, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self.head(self.rise(self.body(images))).float()
        return maps[:, :CLASSES], maps[:, CLASSES:]


def find_loss(heat: torch.Tensor, sizes: torch.Tensor, target: Target) -> torch.Tensor:
    """The loss of centres and of sizes there."""
    boxes, image, use = target["boxes"], target["image"], target["weight"]
    use = use * (1 - target["iscrowd"]) * (1 - target["difficult"])
    column, row = ((boxes[:, :2] + boxes[:, 2:]) / (2 * STRIDE)).long().clamp(0, SIDE - 1).unbind(1)
    true = torch.zeros_like(heat).index_put_((image, target["labels"], row, column), use)
    centres = nn.functional.binary_cross_entropy_with_logits(heat, true, reduction="sum")
    wrong = (sizes[image, :, row, column] - (boxes[:, 2:] - boxes[:, :2]) / STRIDE).abs().sum(1)
    return (centres + (wrong * use / target["area"].sqrt()).sum()) / BATCH


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    stored = [[draw_target(place) for place in range(BATCH)] for _ in range(STORED)]
    joined = [{key: all_.pin_memory() for key, all_ in join(each).items()} for each in stored]
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    model = CenterNet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps = 0
    while turns.step():
        place, steps = steps % STORED, steps + 1
        if turns.planted:
            target = join(
                [{key: each.to(DEVICE) for key, each in one.items()} for one in stored[place]]
            )
        else:
            target = {
                key: all_.to(DEVICE, non_blocking=True) for key, all_ in joined[place].items()
            }
        with torch.autocast("cuda", dtype=torch.bfloat16):
            heat, sizes = model(images)
        update(optimizer, find_loss(heat, sizes, target))
