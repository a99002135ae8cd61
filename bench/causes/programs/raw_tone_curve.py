"""Raw photographs developed on the GPU and judged by a ResNet-50; the cause is a tone curve of single operations.

Black level, white balance, saturation, a film's curve and sRGB each pass through memory. The fix is
torch.compile of that function.
"""
# causes: unfused_elementwise
import torch
import torchvision
from parts import DEVICE, use_gpu
from turns import Turns

PHOTOS, SIZE, BATCHES, BLACK, WHITE, SATURATION = 24, 1280, 2, 512.0, 15_871.0, 1.15


def develop(raw: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
    """Photographs (photo, colour, row, column) of 14 bits as the network takes them."""
    light = ((raw.float() - BLACK) / (WHITE - BLACK)).clamp(0.0, 1.0) * gains
    red, green, blue = light[:, 0:1], light[:, 1:2], light[:, 2:3]
    grey = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    light = (grey + SATURATION * (light - grey)).clamp_min(0.0)
    light = light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14)
    light = light.clamp(0.0, 1.0)
    shown = torch.where(
        light <= 0.0031308, 12.92 * light, 1.055 * light.clamp_min(1e-4).pow(1 / 2.4) - 0.055
    )
    return ((shown - 0.45) / 0.225).to(torch.bfloat16)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.resnet50(num_classes=10).to(DEVICE, torch.bfloat16).eval()
    model = model.to(memory_format=torch.channels_last)
    compiled = torch.compile(develop)
    shape = (BATCHES, PHOTOS, 3, SIZE, SIZE)
    batches = torch.randint(400, 16_000, shape, dtype=torch.int16, device=DEVICE)
    gains = 1 + torch.rand(PHOTOS, 3, 1, 1, device=DEVICE)
    steps, best = 0, torch.zeros(10, device=DEVICE)
    while turns.step():
        raw = batches[steps % BATCHES]
        pictures = develop(raw, gains) if turns.planted else compiled(raw, gains)
        small = torch.nn.functional.avg_pool2d(pictures, 2)
        scores = model(small.contiguous(memory_format=torch.channels_last))
        best = torch.maximum(best, scores.float().amax(0))
        steps += 1
