"""Proposals of a detector (torchvision's ResNet-50); the cause samples anchors image by image.

The fix samples those of all images at once, in tensors of constant shapes.
"""
# causes: synchronization, tiny_kernels
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torchvision.models import resnet50
from turns import Turns

BATCH, SIDE, STRIDE, BOXES, SHAPES, SAMPLES, POSITIVES = 32, 448, 16, 12, 9, 256, 128
LOW, HIGH = 0.3, 0.5


def make_anchors() -> torch.Tensor:
    """Boxes (x1, y1, x2, y2) of some sizes and shapes around each place."""
    middles = torch.arange(SIDE // STRIDE, device=DEVICE) * STRIDE + STRIDE / 2
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    sizes = [(s * r, s / r) for s in (32, 80, 160) for r in (0.7, 1.0, 1.4)]
    wide, high = torch.tensor(sizes, device=DEVICE).T / 2
    x, y = x.reshape(-1, 1), y.reshape(-1, 1)
    return torch.stack([x - wide, y - high, x + wide, y + high], -1).view(-1, 4)


def find_overlaps(boxes: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    """Intersection over union of (..., boxes, 4) and (anchors, 4)."""
    low = torch.maximum(boxes[..., None, :2], anchors[:, :2])
    high = torch.minimum(boxes[..., None, 2:], anchors[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(-1)[..., None]
    return both / (areas + (anchors[:, 2:] - anchors[:, :2]).prod(-1) - both)


def sample_one_by_one(
    boxes: torch.Tensor, anchors: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Flat numbers of the sampled anchors, their labels, and their boxes."""
    numbers, labels, matched = [], [], []
    for image, image_boxes in enumerate(boxes):
        overlap, which = find_overlaps(image_boxes, anchors).max(0)
        positive, negative = torch.where(overlap >= HIGH)[0], torch.where(overlap < LOW)[0]
        count = min(len(positive), POSITIVES)
        positive = positive[torch.randperm(len(positive), device=DEVICE)[:count]]
        negative = negative[torch.randperm(len(negative), device=DEVICE)[: SAMPLES - count]]
        chosen = torch.cat([positive, negative])
        numbers.append(chosen + image * len(anchors))
        labels.append((overlap[chosen] >= HIGH).float())
        matched.append(image_boxes[which[chosen]])
    return torch.cat(numbers), torch.cat(labels), torch.cat(matched)


def sample_at_once(
    boxes: torch.Tensor, anchors: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As sample_one_by_one."""
    overlap, which = find_overlaps(boxes, anchors).max(1)
    order = torch.rand_like(overlap)
    positive = torch.where(overlap >= HIGH, order, -1).topk(POSITIVES).indices
    is_positive = overlap.gather(1, positive) >= HIGH
    # Negatives in the place of positives that are missing, and in the other half.
    negative = torch.where(overlap < LOW, order, -1).topk(SAMPLES).indices
    front = torch.where(is_positive, positive, negative[:, POSITIVES:])
    chosen = torch.cat([front, negative[:, :POSITIVES]], 1)
    labels = (overlap.gather(1, chosen) >= HIGH).float()
    matched = boxes.gather(1, which.gather(1, chosen)[..., None].expand(-1, -1, 4))
    first = torch.arange(len(boxes), device=DEVICE)[:, None] * len(anchors)
    return (chosen + first).flatten(), labels.flatten(), matched.flatten(0, 1)


def find_loss(
    scores: torch.Tensor,
    moves: torch.Tensor,
    anchors: torch.Tensor,
    sample: tuple[torch.Tensor, ...],
) -> torch.Tensor:
    numbers, labels, matched = sample
    mine = anchors[numbers % len(anchors)]
    sizes = mine[:, 2:] - mine[:, :2]
    wanted = torch.cat([matched[:, :2] - mine[:, :2], matched[:, 2:] - mine[:, 2:]], 1)
    wanted = wanted / sizes.repeat(1, 2)
    errors = nn.functional.smooth_l1_loss(moves[numbers], wanted, reduction="none").sum(1)
    return (
        nn.functional.binary_cross_entropy_with_logits(scores[numbers], labels)
        + (errors * labels).sum() / len(labels)
    )  # fmt: skip


def run(turns: Turns) -> None:
    use_gpu(turns)
    trunk = nn.Sequential(*list(resnet50().children())[:-3])
    head = nn.Sequential(
        nn.Conv2d(1024, 512, 3, padding=1), nn.ReLU(), nn.Conv2d(512, 5 * SHAPES, 1)
    )
    model = nn.Sequential(trunk, head).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIDE, SIDE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    corners = torch.rand(BATCH, BOXES, 2, device=DEVICE) * (SIDE - 180)
    boxes = torch.cat([corners, corners + 30 + 150 * torch.rand_like(corners)], -1)
    anchors = make_anchors()
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(images)
        out = out.permute(0, 2, 3, 1).reshape(-1, 5).float()
        sample = (sample_one_by_one if turns.planted else sample_at_once)(boxes, anchors)
        update(optimizer, find_loss(out[:, 0], out[:, 1:], anchors, sample))
