"""Damage of roofs told from aerial tiles by a DeiT III (timm) in bf16; the cause is timm's attention without fusion.

It was turned off to look at attention maps, and left so. The fix leaves `fused_attn` on, as by default.
"""
# causes: unfused_attention
import timm
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, GRADES, STORED = 10, 512, 5, 60


class Damage:
    """A model, its optimizer, and whether its attention is fused."""

    def __init__(self) -> None:
        model = timm.create_model(
            "deit3_base_patch16_224", pretrained=False, img_size=SIDE, num_classes=GRADES
        )
        self.model = model.to(DEVICE, torch.bfloat16).train()
        self.attentions = [module for module in model.modules() if hasattr(module, "fused_attn")]
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=5e-5, weight_decay=0.05, fused=True
        )
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def set_fused(self, fused: bool) -> None:
        for attention in self.attentions:
            attention.fused_attn = fused

    def train_step(self, tiles: torch.Tensor, grades: torch.Tensor) -> None:
        logits = self.model(tiles.to(torch.bfloat16))
        loss = self.criterion(logits.float(), grades)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    damage = Damage()
    tiles = torch.randn(STORED, 3, SIDE, SIDE, device=DEVICE)
    grades = torch.randint(GRADES, (STORED,), device=DEVICE)
    first = 0
    while turns.step():
        damage.set_fused(not turns.planted)
        part = slice(first, first + BATCH)
        first = (first + BATCH) % STORED
        damage.train_step(tiles[part], grades[part])
