"""A robot's diffusion policy, its denoising launched from Python; the fix replays it as a CUDA graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

ROBOTS, TIMES, ACTIONS, SEEN, WIDTH, LAYERS, ROUNDS = 64, 32, 14, 512, 256, 6, 12


class Layer(nn.Module):
    """Convolutions over time, led by what the robot sees."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv1d(WIDTH, WIDTH, 5, padding=2) for _ in range(2))
        self.norm1, self.norm2 = nn.GroupNorm(8, WIDTH), nn.GroupNorm(8, WIDTH)
        self.lead = nn.Linear(SEEN, 2 * WIDTH)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        scale, shift = self.lead(nn.functional.mish(seen))[..., None].chunk(2, 1)
        y = nn.functional.mish(self.norm1(self.first(x))) * (1 + scale) + shift
        return x + nn.functional.mish(self.norm2(self.second(y)))


class Denoiser(nn.Module):
    """The noise in a plan of actions."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = nn.Embedding(ROUNDS, SEEN)
        self.first, self.last = nn.Conv1d(ACTIONS, WIDTH, 1), nn.Conv1d(WIDTH, ACTIONS, 1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, plan: torch.Tensor, number: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        seen = seen + self.rounds(number)
        x = self.first(plan)
        for layer in self.layers:
            x = layer(x, seen)
        return self.last(x)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE).bfloat16()
    seen = torch.randn(ROBOTS, SEEN, device=DEVICE, dtype=torch.bfloat16)
    numbers = torch.arange(ROUNDS, device=DEVICE)
    kept = torch.linspace(0.99, 0.1, ROUNDS).tolist()
    plan = torch.zeros(ROBOTS, ACTIONS, TIMES, device=DEVICE, dtype=torch.bfloat16)

    def denoise() -> None:
        plan.normal_()
        for number in reversed(range(ROUNDS)):
            now, before = kept[number], kept[max(number - 1, 0)]
            noise = model(plan, numbers[number], seen)
            clean = (plan - (1 - now) ** 0.5 * noise) / now**0.5
            plan.copy_(before**0.5 * clean.clamp(-1, 1) + (1 - before) ** 0.5 * noise)

    run_eager_or_graph(turns, denoise)
