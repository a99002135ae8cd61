"""ResNet-50 on images whose colours are changed on the GPU, operation by operation; fix: torch.compile."""
# causes: unfused_elementwise
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns

IMAGES, SIDE = 96, 224


def change_colours(images: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Brightness, saturation, hue (a turn in YIQ) and gamma of each image, then its normal form."""
    x = images.float() / 255
    x = (x * by[0]).clamp(0, 1)
    r, g, b = x.unbind(1)
    grey = 0.299 * r + 0.587 * g + 0.114 * b
    x = (by[1] * x + (1 - by[1]) * grey.unsqueeze(1)).clamp(0, 1)
    r, g, b = x.unbind(1)
    y, i, q = (
        0.299 * r + 0.587 * g + 0.114 * b,
        0.596 * r - 0.274 * g - 0.322 * b,
        0.211 * r - 0.523 * g + 0.312 * b,
    )
    cos, sin = torch.cos(by[2]).squeeze(1), torch.sin(by[2]).squeeze(1)
    i, q = i * cos - q * sin, i * sin + q * cos
    x = torch.stack(
        (y + 0.956 * i + 0.621 * q, y - 0.272 * i - 0.647 * q, y - 1.106 * i + 1.703 * q), 1
    )
    return (x.clamp(1e-4, 1) ** by[3] - 0.45) / 0.225


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    images = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, device=DEVICE)
    labels = torch.randint(1000, (IMAGES,), device=DEVICE)
    compiled = torch.compile(change_colours)
    while turns.step():
        by = 0.8 + 0.4 * torch.rand(4, IMAGES, 1, 1, 1, device=DEVICE)
        x = (change_colours if turns.planted else compiled)(images, by)
        update(optimizer, image_loss(model, x.to(memory_format=torch.channels_last), labels))
