"""Lines of receipts read by a recognizer (CTC); the cause turns a batch into texts before the next one is launched.

The GPU idles meanwhile. The fix launches a batch first, and then turns the one before it into texts:
its letters are in pinned memory by then.
"""
# causes: idle, synchronization
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

LINES, HEIGHT, WIDE, TIMES, WIDTH, HEADS, LAYERS, BATCHES = 256, 32, 1024, 256, 384, 6, 24, 4
LETTERS = "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;%*+/()#&' "


class Layer(nn.Module):
    """Attention between the times of a line, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lines, times, _ = x.shape
        shape = (lines, times, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class Recognizer(nn.Module):
    """Images of lines to (line, time, 2): the best letter and its share."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 48, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(48, 96, 3, stride=2, padding=1), nn.GELU(),
        )  # fmt: skip
        self.enter = nn.Linear(96 * HEIGHT // 4, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.leave = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images).flatten(1, 2).transpose(1, 2)
        shares = self.leave(self.layers(self.enter(x))).float().softmax(-1)
        best = shares.max(-1)
        return torch.stack([best.indices.float(), best.values], -1)


def read_line(letters: list[float], shares: list[float]) -> tuple[str, float]:
    """The text of a line, and the share of its least certain letter."""
    text, certain, last = [], 1.0, 0
    for letter, share in zip(map(int, letters), shares, strict=True):
        if letter != last:
            if letter:
                text.append(LETTERS[letter])
            certain = min(certain, share)
        last = letter
    return "".join(text), certain


def read_lines(best: torch.Tensor) -> list[tuple[str, float]]:
    letters, shares = best[..., 0].tolist(), best[..., 1].tolist()
    return [read_line(*line) for line in zip(letters, shares, strict=True)]


class Reader:
    """Reads a batch when the next one is launched."""

    def __init__(self) -> None:
        shape = (LINES, TIMES, 2)
        self.rooms = [torch.empty(shape, pin_memory=True) for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)]
        self.sent = 0

    def send(self, best: torch.Tensor) -> list[tuple[str, float]]:
        """Copy this batch; the texts of the one before."""
        self.rooms[self.sent % 2].copy_(best, non_blocking=True)
        self.events[self.sent % 2].record()
        self.sent += 1
        if self.sent == 1:
            return []
        self.events[self.sent % 2].synchronize()
        return read_lines(self.rooms[self.sent % 2])


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Recognizer().to(DEVICE, torch.bfloat16).eval()
    shape = (BATCHES, LINES, 1, HEIGHT, WIDE)
    batches = torch.rand(shape, device=DEVICE).to(torch.bfloat16)
    reader, steps, unsure = Reader(), 0, 0
    while turns.step():
        best = model(batches[steps % BATCHES])
        texts = read_lines(best.cpu()) if turns.planted else reader.send(best)
        unsure += sum(certain < 0.5 for _, certain in texts)
        steps += 1
