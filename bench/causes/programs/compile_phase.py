"""A neural field, its encoding compiled, from coarse to fine; the cause keeps the phase as an int.

torch.compile takes an int of a module for a constant, so each new phase is compiled.
"""
# causes: compile
import os
import tempfile

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

POINTS, BANDS, WIDTH, LAYERS, RATE, PERIOD = 1 << 17, 10, 256, 6, 0.01, 10


class Encoding(nn.Module):
    """Sines and cosines of places, of which the fine ones come in slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.phase: int | torch.Tensor = 0
        self.register_buffer("places", torch.arange(BANDS, dtype=torch.float32))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        shares = (self.phase * RATE + 1 - self.places).clamp(0, 1)
        weights = 0.5 - 0.5 * torch.cos(torch.pi * shares)
        angles = torch.pi * points[..., None] * 2**self.places
        return torch.cat([weights * angles.sin(), weights * angles.cos()], -1).flatten(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    # No run finds what an earlier one compiled.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.accumulated_recompile_limit = 1000
    encoding = Encoding().to(DEVICE)
    compiled = torch.compile(encoding)
    layers: list[nn.Module] = [nn.Linear(6 * BANDS, WIDTH), nn.ReLU()]
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 4)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    points, colors = torch.rand(POINTS, 3, device=DEVICE), torch.rand(POINTS, 4, device=DEVICE)
    on_device = torch.zeros((), device=DEVICE)
    steps = 0
    while turns.step():
        steps += 1
        on_device.fill_(steps // PERIOD)
        encoding.phase = steps // PERIOD if turns.planted else on_device
        encoded = compiled(points)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            made = model(encoded)
        update(optimizer, nn.functional.mse_loss(made.float(), colors))
