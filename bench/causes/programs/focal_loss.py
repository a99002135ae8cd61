"""A detector's head with the focal loss of each box and class written out; fix: torch.compile."""
# causes: unfused_elementwise
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.nn import functional
from turns import Turns

IMAGES, SIDE, WIDTH, ANCHORS, CLASSES = 8, 80, 256, 9, 80


def focal_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of RetinaNet, as torchvision writes it."""
    p = torch.sigmoid(logits)
    loss = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = loss * ((1 - p_t) ** 2.0)
    alpha_t = 0.25 * targets + (1 - 0.25) * (1 - targets)
    return (alpha_t * loss).sum()


def make_head() -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(WIDTH, ANCHORS * CLASSES, 3, padding=1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    head = make_head().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-4, momentum=0.9, fused=True)
    features = torch.randn(IMAGES, WIDTH, SIDE, SIDE, device=DEVICE)
    features = features.to(memory_format=torch.channels_last)
    targets = torch.zeros(IMAGES, SIDE * SIDE * ANCHORS, CLASSES, device=DEVICE)
    targets[:, ::97, 3] = 1
    compiled = torch.compile(focal_loss)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = head(features)
        logits = logits.permute(0, 2, 3, 1).reshape(targets.shape).float()
        loss = (focal_loss if turns.planted else compiled)(logits, targets)
        update(optimizer, loss / 1e4)
