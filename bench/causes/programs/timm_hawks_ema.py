"""A timm ConvNeXt for photos of hawks with averaged weights; the cause is averages one by one.

The fix is ModelEmaV3's foreach=True, which averages all weights by few kernels.
"""

# causes: tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, image_loss, update, use_gpu
from timm.utils import ModelEmaV3
from torch import nn
from turns import Turns

BATCH, PIXELS, KINDS, DECAY = 24, 128, 400, 0.9998


def make_model() -> nn.Module:
    model = timm.create_model("convnext_small", num_classes=KINDS).to(DEVICE)
    return model.to(memory_format=torch.channels_last)


def draw_photos() -> tuple[torch.Tensor, torch.Tensor]:
    photos = torch.rand(BATCH, 3, PIXELS, PIXELS, device=DEVICE)
    labels = torch.randint(KINDS, (BATCH,), device=DEVICE)
    return photos.to(memory_format=torch.channels_last), labels


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    average = ModelEmaV3(model, decay=DECAY, foreach=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    photos, labels = draw_photos()
    number = 0
    while turns.step():
        number += 1
        update(optimizer, image_loss(model, photos, labels))
        average.foreach = not turns.planted
        average.update(model, step=number)
