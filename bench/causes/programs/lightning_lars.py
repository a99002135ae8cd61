"""A ViT with Lightning's strategy ddp; the cause is a LARS that updates the weights one by one.

The fix updates them together.
"""
# causes: tiny_kernels, host_bound
from collections.abc import Callable, Iterator

import lightning_or_pytorch as lightning
import torch
import torchvision
from parts import DEVICE, image_loss, use_ranks
from turns import Turns

RANKS = 2
BATCH, SIZE, LAYERS, WIDTH = 160, 160, 24, 512
RATE, DECAY, TRUST, KEPT = 0.1, 1e-4, 1e-3, 0.9


class Lars(torch.optim.Optimizer):
    """Changes each weight in proportion to its own size."""

    def __init__(self, weights: Iterator[torch.nn.Parameter], turns: Turns) -> None:
        super().__init__(weights, {})
        self.turns = turns
        self.weights = [weight for group in self.param_groups for weight in group["params"]]
        self.changes = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:
        with torch.enable_grad():
            loss = closure()
        slopes = [weight.grad for weight in self.weights]
        if self.turns.planted:
            for weight, slope, change in zip(self.weights, slopes, self.changes, strict=True):
                self.change_one(weight, slope, change)
        else:
            self.change_all(slopes)
        return loss

    def change_one(self, weight: torch.Tensor, slope: torch.Tensor, change: torch.Tensor) -> None:
        slope = slope + DECAY * weight
        change.mul_(KEPT).add_(slope * find_ratio(weight.norm(), slope.norm()))
        weight.sub_(RATE * change)

    def change_all(self, slopes: list[torch.Tensor]) -> None:
        slopes = torch._foreach_add(slopes, self.weights, alpha=DECAY)
        sizes, steeps = map(torch._foreach_norm, (self.weights, slopes))
        ratios = find_ratio(torch.stack(sizes), torch.stack(steeps))
        torch._foreach_mul_(slopes, ratios.unbind())
        torch._foreach_mul_(self.changes, KEPT)
        torch._foreach_add_(self.changes, slopes)
        torch._foreach_add_(self.weights, self.changes, alpha=-RATE)


def find_ratio(size: torch.Tensor, steep: torch.Tensor) -> torch.Tensor:
    """One where the weight or its slope is zero."""
    ratio = TRUST * size / (steep + 1e-8)
    return torch.where((size > 0) & (steep > 0), ratio, 1.0)


class Images:
    """The same images again and again, on the GPU."""

    def __init__(self) -> None:
        self.images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
        self.labels = torch.randint(1000, (BATCH,), device=DEVICE)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield self.images, self.labels


class Classifier(lightning.LightningModule):
    """A deep ViT."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.model = torchvision.models.VisionTransformer(
            image_size=SIZE, patch_size=16, num_layers=LAYERS, num_heads=8, hidden_dim=WIDTH,
            mlp_dim=4 * WIDTH,
        ).to(DEVICE)  # fmt: skip
        self.turns = turns
        turns.step()

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        return image_loss(self.model, *batch)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return Lars(self.parameters(), self.turns)


def run(turns: Turns) -> None:
    use_ranks(turns)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=RANKS, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(turns), Images())
