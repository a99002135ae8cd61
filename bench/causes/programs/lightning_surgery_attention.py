"""Phases of surgery told in clips by attention over space and time, under Lightning; the cause writes attention out.

`(q @ k.transpose(-2, -1)) * scale`, a softmax and `@ v`, as in the code of many video transformers.
The fix is `scaled_dot_product_attention`.
"""
# causes: unfused_attention
import lightning_or_pytorch as lightning
import torch
import torch.nn.functional as F
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, FRAMES, SIZE, CLIPS, PHASES = 4, 16, 224, 16, 7
TUBE, PATCH, WIDTH, HEADS, LAYERS = 2, 16, 768, 12, 6
GRID = (FRAMES // TUBE, SIZE // PATCH, SIZE // PATCH)


class Clips(Dataset[tuple[torch.Tensor, int]]):
    """Clips of a camera as bytes, ready in memory."""

    def __init__(self) -> None:
        self.clips = torch.randint(256, (CLIPS, 3, FRAMES, SIZE, SIZE), dtype=torch.uint8)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.clips[index % CLIPS], index % PHASES


class Attention(nn.Module):
    """Attention of all tubes of a clip to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = (WIDTH // HEADS) ** -0.5
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fused = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.fused:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            attn = (q @ k.transpose(-2, -1)) * self.scale
            x = attn.softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Surgery(lightning.LightningModule):
    """A transformer over tubes of a clip."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        tokens = GRID[0] * GRID[1] * GRID[2]
        self.embed = nn.Linear(3 * TUBE * PATCH * PATCH, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(1, tokens, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, PHASES)
        turns.step()

    def cut(self, clips: torch.Tensor) -> torch.Tensor:
        """The pixels of each tube, between -1 and 1."""
        times, rows, columns = GRID
        x = clips.view(len(clips), 3, times, TUBE, rows, PATCH, columns, PATCH)
        x = x.permute(0, 2, 4, 6, 1, 3, 5, 7).reshape(len(clips), times * rows * columns, -1)
        return x.float() / 127.5 - 1

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        clips, phases = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.embed(self.cut(clips)) + self.places
            for block in self.blocks:
                block.attn.fused = not self.turns.planted
                x = block(x)
            scores = self.head(self.norm(x).mean(1))
        return F.cross_entropy(scores.float(), phases, label_smoothing=0.1)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, weight_decay=0.05, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Clips(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Surgery(turns), loader)
