"""A diffusion sampler; the cause reads the noise level from the GPU before each of its calls."""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = [nn.Conv2d(4, 256, 3, padding=1)]
    layers += [nn.Conv2d(256, 256, 3, padding=1) for _ in range(10)]
    model = nn.Sequential(*layers, nn.Conv2d(256, 4, 3, padding=1))
    model = model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    sigmas = torch.linspace(10, 0.1, 20, device=DEVICE)
    table = sigmas.tolist()
    noise = torch.randn(2, 4, 64, 64, device=DEVICE, dtype=torch.bfloat16)
    while turns.step():
        latents = noise.clone(memory_format=torch.channels_last)
        with torch.no_grad():
            for number in range(20):
                sigma = float(sigmas[number]) if turns.planted else table[number]
                derivative = (latents - model(latents / (1 + sigma))) / sigma
                latents = latents - derivative * 0.01
                largest = latents.abs().max()
                if turns.planted:
                    float(largest)
        latents.cpu()
