"""Poses of swimmers by a ViT (timm) with a head of heatmaps; the cause decodes the maps swimmer by swimmer.

The best place of each joint is refined by its neighbours, and put into the frame of the camera. The
fix calls the same function once for all swimmers.
"""
# causes: tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

SWIMMERS, HEIGHT, WIDE, PATCH, JOINTS, BATCHES = 96, 256, 192, 16, 17, 3


class Poser(nn.Module):
    """Crops of swimmers to heatmaps (swimmer, joint, row, column), a quarter as large."""

    def __init__(self) -> None:
        super().__init__()
        self.body = timm.create_model(
            "vit_base_patch16_224", pretrained=False, num_classes=0, img_size=(HEIGHT, WIDE)
        )
        self.head = nn.Sequential(
            nn.ConvTranspose2d(768, 256, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(256, 256, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(256, JOINTS, 1),
        )  # fmt: skip

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        patches = self.body.forward_features(crops)[:, 1:].transpose(1, 2)
        return self.head(patches.reshape(-1, 768, HEIGHT // PATCH, WIDE // PATCH)).float()


def decode(maps: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Joints (swimmer, joint, 3) in the frame as x, y and score, from maps and boxes of crops."""
    height, width = maps.shape[2:]
    flat = maps.flatten(2)
    score, best = flat.max(-1)
    x, y = best % width, best // width
    inner = y.clamp(1, height - 2) * width + x.clamp(1, width - 2)
    left, right, above, below = (
        flat.gather(2, (inner + step)[..., None])[..., 0] for step in (-1, 1, -width, width)
    )
    x = (x + 0.25 * (right - left).sign() + 0.5) / width
    y = (y + 0.25 * (below - above).sign() + 0.5) / height
    corner_x, corner_y, wide, high = boxes[:, None].unbind(-1)
    return torch.stack([corner_x + x * wide, corner_y + y * high, score.sigmoid()], -1)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Poser().to(DEVICE, torch.bfloat16).eval()
    batches = torch.randn(BATCHES, SWIMMERS, 3, HEIGHT, WIDE, device=DEVICE).to(torch.bfloat16)
    boxes = 50 + 200 * torch.rand(SWIMMERS, 4, device=DEVICE)
    steps, certain = 0, 0.0
    while turns.step():
        maps = model(batches[steps % BATCHES])
        if turns.planted:
            parts = zip(maps.split(1), boxes.split(1), strict=True)
            joints = torch.cat([decode(some, box) for some, box in parts])
        else:
            joints = decode(maps, boxes)
        certain = max(certain, float(joints[..., 2].cpu().max()))
        steps += 1
