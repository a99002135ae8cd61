"""Detection of objects in images; the cause drops overlapping boxes with NumPy, image by image."""
# causes: idle
import numpy as np
import torch
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

IMAGES, SIZE, BOXES, OVERLAP = 16, 640, 200, 0.5


class Detector(nn.Module):
    """ResNet-50 and a head with three boxes for each place."""

    def __init__(self) -> None:
        super().__init__()
        layers = list(torchvision.models.resnet50().children())[:-2]
        # Weights are random, so the last norm takes its mean and spread from the batch.
        layers.append(nn.BatchNorm2d(2048, track_running_stats=False))
        self.body, self.head = nn.Sequential(*layers), nn.Conv2d(2048, 3 * 5, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The best boxes of each image as (left, top, right, bottom), and their scores."""
        raw = self.head(self.body(images)).float()
        batch, _, rows, columns = raw.shape
        raw = raw.view(batch, 3, 5, rows * columns).transpose(2, 3).flatten(1, 2)
        places = torch.arange(3 * rows * columns, device=raw.device) % (rows * columns)
        grid = torch.stack([places % columns, places // columns], 1) * (SIZE / columns)
        middle, size = grid + 16 * raw[..., :2].tanh(), 190 * raw[..., 2:4].sigmoid() + 10
        scores, best = raw[..., 4].topk(BOXES)
        boxes = torch.cat([middle - size / 2, middle + size / 2], -1)
        return boxes.gather(1, best.unsqueeze(-1).expand(-1, -1, 4)), scores


def suppress(boxes: np.ndarray, scores: np.ndarray) -> list[int]:
    """The boxes that no better one covers by half, best first."""
    left, top, right, bottom = boxes.T
    areas = (right - left) * (bottom - top)
    order, kept = scores.argsort()[::-1], []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        width = np.minimum(right[best], right[rest]) - np.maximum(left[best], left[rest])
        height = np.minimum(bottom[best], bottom[rest]) - np.maximum(top[best], top[rest])
        shared = np.maximum(0.0, width) * np.maximum(0.0, height)
        order = rest[shared / (areas[best] + areas[rest] - shared) <= OVERLAP]
    return kept


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Detector().to(DEVICE, memory_format=torch.channels_last).eval()
    images = torch.rand(IMAGES, 3, SIZE, SIZE, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    numbers = torch.arange(IMAGES, device=DEVICE).repeat_interleave(BOXES)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            boxes, scores = model(images)
        if turns.planted:
            pairs = zip(boxes.cpu().numpy(), scores.cpu().numpy(), strict=True)
            objects = sum(len(suppress(*pair)) for pair in pairs)
        else:
            every = boxes.flatten(0, 1), scores.flatten()
            objects = len(torchvision.ops.batched_nms(*every, numbers, OVERLAP).tolist())
        assert objects >= IMAGES
