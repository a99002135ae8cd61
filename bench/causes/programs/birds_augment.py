"""Birds in photographs told by a ViT (torchvision); the cause changes each image of a batch by itself on the GPU.

The fix turns, crops and colours the whole batch at once, with other numbers for each image.
"""
# causes: tiny_kernels, host_bound
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, CLASSES = 64, 224, 200
GREY = (0.299, 0.587, 0.114)


def change(images: torch.Tensor, draw: torch.Tensor) -> torch.Tensor:
    """Images turned, cropped, mirrored and coloured; draw: five numbers from 0 to 1 for each."""
    angle, scale, mirror, light, colour = draw.unbind(1)
    cosine, sine = torch.cos(angle - 0.5), torch.sin(angle - 0.5)
    scale = 0.5 + 0.5 * scale
    side = torch.where(mirror < 0.5, -scale, scale)
    zero = torch.zeros_like(scale)
    rows = (cosine * side, -sine * scale, zero, sine * side, cosine * scale, zero)
    grid = nn.functional.affine_grid(
        torch.stack(rows, 1).view(-1, 2, 3), list(images.shape), align_corners=False
    )
    images = nn.functional.grid_sample(images, grid, align_corners=False)
    images = images * (0.6 + 0.8 * light)[:, None, None, None]
    grey = (images * images.new_tensor(GREY)[:, None, None]).sum(1, keepdim=True)
    return torch.lerp(grey.expand_as(images), images, (0.5 + colour)[:, None, None, None])


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.vit_b_16(num_classes=CLASSES).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    labels = torch.randint(CLASSES, (BATCH,), device=DEVICE)
    while turns.step():
        draw = torch.rand(BATCH, 5, device=DEVICE)
        if turns.planted:
            pairs = zip(images.split(1), draw.split(1), strict=True)
            changed = torch.cat([change(image, numbers) for image, numbers in pairs])
        else:
            changed = change(images, draw)
        update(optimizer, image_loss(model, changed, labels))
