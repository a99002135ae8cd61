"""Images and their texts (as CLIP) in large batches by parts, under Lightning; the cause empties the cache after each part.

GradCache encodes a batch without gradients, finds those of the vectors, and encodes each part again.
`empty_cache` was meant to leave room for the next part. The fix leaves the allocator alone.
"""
# causes: allocation
from collections.abc import Iterator

import lightning_or_pytorch as lightning
import timm
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, PARTS, SIZE, WORDS, VOCABULARY = 256, 4, 224, 64, 16_384
WIDTH, TEXT_WIDTH, LAYERS, STORED = 384, 512, 8, 2

Pair = tuple[torch.Tensor, torch.Tensor]


class Pairs:
    """The same images and texts again and again, on the GPU."""

    def __init__(self) -> None:
        self.images = torch.randn(STORED, BATCH, 3, SIZE, SIZE, device=DEVICE)
        self.words = torch.randint(VOCABULARY, (STORED, BATCH, WORDS), device=DEVICE)

    def __iter__(self) -> Iterator[Pair]:
        while True:
            yield from zip(self.images, self.words, strict=True)


class TextEncoder(nn.Module):
    """Words to a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, TEXT_WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(WORDS, TEXT_WIDTH))
        layer = nn.TransformerEncoderLayer(
            TEXT_WIDTH, 8, 4 * TEXT_WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(
            layer, LAYERS, nn.LayerNorm(TEXT_WIDTH), enable_nested_tensor=False
        )
        self.project = nn.Linear(TEXT_WIDTH, WIDTH)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.project(self.layers(self.table(words) + self.places).mean(1))


class Contrast(lightning.LightningModule):
    """Two encoders whose vectors of a pair shall be near."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.turns = turns
        self.image = timm.create_model("vit_small_patch16_224", pretrained=False, num_classes=0)
        self.text = TextEncoder()
        self.scale = nn.Parameter(torch.tensor(2.66))
        turns.step()

    def encode(self, images: torch.Tensor, words: torch.Tensor) -> Pair:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = self.image(images), self.text(words)
        return tuple(F.normalize(each.float(), dim=-1) for each in found)

    def make_room(self) -> None:
        if self.turns.planted:
            torch.cuda.empty_cache()

    @torch.no_grad()
    def encode_all(self, parts: list[Pair]) -> list[torch.Tensor]:
        """The vectors of the whole batch, as leaves whose gradients are kept."""
        found = []
        for part in parts:
            found.append(self.encode(*part))
            self.make_room()
        return [torch.cat(all_).requires_grad_() for all_ in zip(*found, strict=True)]

    def compare(self, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        scores = self.scale.exp() * images @ texts.T
        labels = torch.arange(len(scores), device=scores.device)
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2

    def training_step(self, batch: Pair, _: int) -> None:
        optimizer = self.optimizers()
        parts = list(zip(*(each.chunk(PARTS) for each in batch), strict=True))
        vectors = self.encode_all(parts)
        optimizer.zero_grad()
        self.manual_backward(self.compare(*vectors))
        slopes = zip(*(each.grad.chunk(PARTS) for each in vectors), strict=True)
        for part, slope in zip(parts, slopes, strict=True):
            torch.autograd.backward(self.encode(*part), slope)
            self.make_room()
        optimizer.step()

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Contrast(turns), Pairs())
