"""A transformer; the cause times each sublayer by hand, with waits for the GPU around it."""
# causes: synchronization
import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator

import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from torch import nn
from turns import Turns


class Timers:
    """Seconds of each part of the model, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.on = True

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        if not self.on:
            yield
            return
        torch.cuda.synchronize()
        start = time.perf_counter()
        yield
        torch.cuda.synchronize()
        self.seconds[name] += time.perf_counter() - start


class Timed(nn.Module):
    """A layer with a timer."""

    def __init__(self, layer: nn.Module, name: str, timers: Timers) -> None:
        super().__init__()
        self.layer, self.name, self.timers = layer, name, timers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.timers.measure(self.name):
            return self.layer(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    timers = Timers()
    model = Gpt(16, 512).to(DEVICE)
    for place, block in enumerate(model.blocks):
        for name in ("norm1", "qkv", "out", "norm2", "mlp"):
            setattr(block, name, Timed(getattr(block, name), f"{place}.{name}", timers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(16, 257)
    while turns.step():
        timers.on = turns.planted
        update(optimizer, language_loss(model, tokens))
