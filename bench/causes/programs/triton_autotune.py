"""Gated layers in Triton; the cause tunes its kernel anew for each length of a batch.

The fix tunes it once for all lengths up to the next power of 2.
"""
# causes: compile
import torch
import triton
import triton.language as tl
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

WIDTH, INNER, LAYERS, SHORTEST, EACH = 1024, 4096, 12, 16384, 8
CONFIGS = [triton.Config({"SIZE": size}, num_warps=warps) for size, warps in ((512, 4), (2048, 8))]


@triton.autotune(CONFIGS, key=["like"])
@triton.jit
def gate(mixed, gated, count, like, INNER: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """silu(a) * b for rows (a, b); `like` is the number of words that the kernel is tuned for."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    row, column = at // INNER, at % INNER
    inside = at < count
    a = tl.load(mixed + row * 2 * INNER + column, inside).to(tl.float32)
    b = tl.load(mixed + row * 2 * INNER + INNER + column, inside).to(tl.float32)
    tl.store(gated + at, a * tl.sigmoid(a) * b, inside)


class Gated(nn.Module):
    """A gated layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.first, self.last = nn.Linear(WIDTH, 2 * INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: torch.Tensor, like: int) -> torch.Tensor:
        mixed = self.first(self.norm(x))
        gated = mixed.new_empty(len(x), INNER)
        grid = lambda chosen: (triton.cdiv(gated.numel(), chosen["SIZE"]),)  # noqa: E731
        gate[grid](mixed, gated, gated.numel(), like, INNER=INNER)
        return x + self.last(gated)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = EACH
    layers = nn.ModuleList(Gated() for _ in range(LAYERS)).to(DEVICE).bfloat16()
    all_words = torch.randn(2 * SHORTEST, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    steps = 0
    while turns.step():
        # Each eighth batch has a length that was not there before.
        length = SHORTEST + 16 * (1 + steps // EACH % 255) if steps % EACH == 0 else SHORTEST
        like = length if turns.planted else triton.next_power_of_2(length)
        x = all_words[:length]
        for layer in layers:
            x = layer(x, like)
        steps += 1
