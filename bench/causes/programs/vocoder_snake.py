"""A vocoder with Snake activations written out, as BigVGAN has them; fix: torch.compile."""
# causes: unfused_elementwise
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

VOICES, SAMPLES, WIDTH, LAYERS = 8, 16384, 256, 8


def snake(x: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    alpha, beta = torch.exp(alpha), torch.exp(beta)
    return x + (1.0 / (beta + 1e-9)) * torch.pow(torch.sin(x * alpha), 2)


class Layer(nn.Module):
    """A dilated convolution behind an activation."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.alpha, self.beta = (nn.Parameter(torch.zeros(1, WIDTH, 1)) for _ in range(2))
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=dilation, dilation=dilation)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Layer(1 + 2 * (n % 3)) for n in range(LAYERS)).to(DEVICE).half()
    sound = torch.randn(VOICES, WIDTH, SAMPLES, device=DEVICE, dtype=torch.half)
    compiled = torch.compile(snake)
    while turns.step():
        act = snake if turns.planted else compiled
        x = sound
        for layer in layers:
            x = x + 0.1 * layer.convolution(act(x, layer.alpha, layer.beta))
