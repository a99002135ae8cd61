"""A latent ODE of patients' series (Runge-Kutta), launched from Python; the fix replays a CUDA graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, run_eager_or_graph, update, use_gpu
from torch import nn
from turns import Turns

PATIENTS, SEEN, STEPS, VALUES, STATE, WIDTH = 256, 24, 36, 16, 32, 128


class LatentOde(nn.Module):
    """A state from the first values, moved on by a network, to the values that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(SEEN * VALUES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * STATE)
        )
        self.slope = nn.Sequential(
            nn.Linear(STATE, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(),
            nn.Linear(WIDTH, STATE),
        )  # fmt: skip
        self.decoder = nn.Sequential(nn.Linear(STATE, WIDTH), nn.ReLU(), nn.Linear(WIDTH, VALUES))

    def move(self, state: torch.Tensor, span: float) -> torch.Tensor:
        """The state a span of time later, by the method of Runge and Kutta."""
        first = self.slope(state)
        second = self.slope(state + 0.5 * span * first)
        third = self.slope(state + 0.5 * span * second)
        fourth = self.slope(state + span * third)
        return state + span / 6 * (first + 2 * second + 2 * third + fourth)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.encoder(seen).chunk(2, -1)
        state, states = mean + torch.randn_like(mean) * (0.5 * spread).exp(), []
        for _ in range(STEPS):
            state = self.move(state, 1 / STEPS)
            states.append(state)
        surprise = 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(-1).mean()
        return self.decoder(torch.stack(states, 1)), surprise


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = LatentOde().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    series = torch.randn(PATIENTS, SEEN + STEPS, VALUES, device=DEVICE)
    seen, later = series[:, :SEEN].contiguous(), series[:, SEEN:].contiguous()

    def step() -> None:
        told, surprise = model(seen)
        update(optimizer, nn.functional.mse_loss(told, later) + 1e-3 * surprise)

    run_eager_or_graph(turns, step)
