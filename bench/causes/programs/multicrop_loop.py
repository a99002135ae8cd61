"""A ViT (timm) that learns without labels from crops of images (as DINO); the cause calls it for each crop by itself.

Each image has two large crops and eight small ones. The fix calls the network once for all crops of a size.
"""
# causes: host_bound, tiny_kernels
import copy

import timm
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LARGE, SMALL, LARGES, SMALLS, STORED = 12, 224, 96, 2, 8, 3
MODEL, INNER, OUTPUTS = "vit_base_patch16_224", 1024, 4096
KEPT, STUDENT_HEAT, TEACHER_HEAT = 0.996, 0.1, 0.04


class Network(nn.Module):
    """A ViT with a head of three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = timm.create_model(MODEL, pretrained=False, num_classes=0, dynamic_img_size=True)
        self.head = nn.Sequential(
            nn.Linear(self.body.num_features, INNER), nn.GELU(), nn.Linear(INNER, INNER), nn.GELU(),
            nn.Linear(INNER, OUTPUTS),
        )  # fmt: skip

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(crops))


class Dino:
    """A student that sees all crops, and its moving mean that sees the large ones."""

    def __init__(self) -> None:
        self.student = Network().to(DEVICE)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-4, fused=True)
        self.centre = torch.zeros(OUTPUTS, device=DEVICE)

    def call_each(self, network: nn.Module, crops: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack([network(crop).float() for crop in crops])

    def call_by_size(self, network: nn.Module, crops: list[torch.Tensor]) -> torch.Tensor:
        sizes = [crops[:LARGES], crops[LARGES:]]
        found = [network(torch.cat(same)).float() for same in sizes if same]
        return torch.cat(found).view(len(crops), BATCH, OUTPUTS)

    def compute_loss(self, crops: list[torch.Tensor], each: bool) -> torch.Tensor:
        call = self.call_each if each else self.call_by_size
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.no_grad():
                taught = call(self.teacher, crops[:LARGES])
            learned = call(self.student, crops)
        return self.compare(taught, learned)

    def compare(self, taught: torch.Tensor, learned: torch.Tensor) -> torch.Tensor:
        """The cross entropy of each small crop, and of a large one with the other one."""
        shares = ((taught - self.centre) / TEACHER_HEAT).softmax(-1)
        self.centre.lerp_(taught.mean((0, 1)), 0.1)
        logarithms = (learned / STUDENT_HEAT).log_softmax(-1)
        losses = -torch.einsum("tbo,sbo->ts", shares, logarithms) / BATCH
        return losses.triu(1).sum() + losses.tril(-1).sum()

    def move_teacher(self) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.teacher.parameters()), list(self.student.parameters()), 1 - KEPT
            )


def run(turns: Turns) -> None:
    use_gpu(turns)
    dino = Dino()
    sizes = [LARGE] * LARGES + [SMALL] * SMALLS
    stored = [
        [torch.randn(BATCH, 3, size, size, device=DEVICE) for size in sizes] for _ in range(STORED)
    ]
    steps = 0
    while turns.step():
        crops, steps = stored[steps % STORED], steps + 1
        update(dino.optimizer, dino.compute_loss(crops, each=turns.planted))
        dino.move_teacher()
