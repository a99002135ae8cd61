"""A service that embeds photos of products by a ViT-L (torchvision); the cause resizes each photo by PIL in the loop.

The fix copies the photos to the GPU as bytes, and resizes and normalizes them there at once.
"""

# causes: idle
import numpy as np
import torch
import torchvision
from parts import DEVICE, use_gpu
from PIL import Image
from torch import nn
from torchvision import transforms
from torchvision.transforms import functional
from turns import Turns

PHOTOS, BATCH, HEIGHT, WIDTH, SHORT, SIDE = 96, 24, 480, 640, 256, 224
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

PREPARE = transforms.Compose(
    [
        transforms.Resize(SHORT),
        transforms.CenterCrop(SIDE),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, DEVIATION),
    ]
)


def make_model() -> nn.Module:
    model = torchvision.models.vit_l_16(weights=None)
    model.heads = nn.Identity()
    return model.eval().to(DEVICE, torch.bfloat16)


def draw_photos() -> list[np.ndarray]:
    """Decoded photos: smooth shades with some noise."""
    random = np.random.default_rng(0)
    rows = np.linspace(0, 160, HEIGHT)[:, None, None]
    columns = np.linspace(0, 60, WIDTH)[None, :, None]
    noise = random.integers(0, 32, (PHOTOS, HEIGHT, WIDTH, 3), dtype=np.uint8)
    return [(rows + columns + each).astype(np.uint8) for each in noise]


def prepare_on_host(photos: list[np.ndarray]) -> torch.Tensor:
    return torch.stack([PREPARE(Image.fromarray(photo)) for photo in photos]).to(DEVICE)


def prepare_on_gpu(photos: list[np.ndarray], room: torch.Tensor) -> torch.Tensor:
    """As prepare_on_host; `room` is pinned memory for a batch."""
    for place, photo in zip(room, photos, strict=True):
        place.copy_(torch.from_numpy(photo))
    pixels = room.to(DEVICE, non_blocking=True).permute(0, 3, 1, 2).float() / 255
    pixels = functional.resize(pixels.contiguous(), [SHORT], antialias=True)
    pixels = functional.center_crop(pixels, [SIDE, SIDE])
    return functional.normalize(pixels, MEAN, DEVIATION)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model, photos = make_model(), draw_photos()
    room = torch.empty(BATCH, HEIGHT, WIDTH, 3, dtype=torch.uint8).pin_memory()
    taken, answers = 0, []
    while turns.step():
        request = photos[taken : taken + BATCH]
        pixels = prepare_on_host(request) if turns.planted else prepare_on_gpu(request, room)
        vectors = nn.functional.normalize(model(pixels.bfloat16()).float(), dim=1)
        answers = vectors.cpu().tolist()
        taken = (taken + len(answers)) % PHOTOS
