"""A timm ConvNeXt on photos of market stalls; the cause is random erasing, picture by picture.

The fix draws all boxes and all noise at once, on the GPU.
"""

# causes: tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, image_loss, update, use_gpu
from timm.data.random_erasing import RandomErasing
from turns import Turns

BATCH, PIXELS, GOODS = 256, 96, 200
LEAST, MOST = 18, 54


def draw_spans() -> torch.Tensor:
    """For each picture, which pixels of one side its box has."""
    lengths = torch.randint(LEAST, MOST, (BATCH, 1), device=DEVICE)
    starts = (torch.rand(BATCH, 1, device=DEVICE) * (PIXELS - lengths)).long()
    places = torch.arange(PIXELS, device=DEVICE)
    return (places >= starts) & (places < starts + lengths)


def erase_at_once(photos: torch.Tensor) -> torch.Tensor:
    """Noise in a box of each picture."""
    boxes = draw_spans()[:, None, :, None] & draw_spans()[:, None, None, :]
    return torch.where(boxes, torch.randn_like(photos), photos)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("convnext_atto", num_classes=GOODS).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    erase = RandomErasing(probability=1.0, mode="pixel", max_area=0.3, device=DEVICE)
    photos = torch.rand(BATCH, 3, PIXELS, PIXELS, device=DEVICE)
    labels = torch.randint(GOODS, (BATCH,), device=DEVICE)
    while turns.step():
        seen = erase(photos.clone()) if turns.planted else erase_at_once(photos)
        update(optimizer, image_loss(model, seen, labels))
