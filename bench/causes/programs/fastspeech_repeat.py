"""Speech from text (as FastSpeech); the cause repeats phones without saying how many frames come out.

`repeat_interleave` then asks the GPU. The fix passes `output_size`, which the loader knows.
"""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from turns import Turns

BATCH, PHONES, KINDS, WIDTH, HEADS, BANDS = 40, 120, 80, 512, 8, 80
ENCODERS, DECODERS, LONGEST = 4, 6, 12


class Layer(nn.Module):
    """Attention and two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Conv1d(WIDTH, 4 * WIDTH, 3, padding=1)
        self.narrow = nn.Conv1d(4 * WIDTH, WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.narrow(self.wide(self.norm2(x).transpose(1, 2)).relu())
        return x + y.transpose(1, 2)


class Speech(nn.Module):
    """Phones to spectra, each phone as long as it is spoken."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(KINDS, WIDTH)
        self.encoder = nn.Sequential(*(Layer() for _ in range(ENCODERS)))
        self.decoder = nn.Sequential(*(Layer() for _ in range(DECODERS)))
        self.head = nn.Linear(WIDTH, BANDS)

    def forward(
        self, phones: torch.Tensor, durations: torch.Tensor, frames: list[int | None]
    ) -> torch.Tensor:
        x = self.encoder(self.embedding(phones))
        rows = [
            torch.repeat_interleave(row, times, dim=0, output_size=count)
            for row, times, count in zip(x, durations, frames, strict=True)
        ]
        return self.head(self.decoder(pad_sequence(rows, batch_first=True)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Speech().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    durations = torch.randint(1, LONGEST + 1, (BATCH, PHONES))
    frames: list[int | None] = durations.sum(1).tolist()
    phones = torch.randint(KINDS, (BATCH, PHONES), device=DEVICE)
    spectra = torch.rand(BATCH, int(durations.sum(1).max()), BANDS, device=DEVICE)
    durations = durations.to(DEVICE)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            made = model(phones, durations, [None] * BATCH if turns.planted else frames)
        update(optimizer, nn.functional.l1_loss(made.float(), spectra))
