"""A radiance field; the cause draws the rays of a batch by NumPy from all pixels of an image."""
# causes: idle
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

HEIGHT, WIDTH, RAYS, SAMPLES, FREQUENCIES, UNITS = 800, 800, 4096, 64, 10, 256


def encode(points: torch.Tensor) -> torch.Tensor:
    """Sines and cosines of places at several frequencies."""
    scales = 2.0 ** torch.arange(FREQUENCIES, device=DEVICE)
    angles = (points.unsqueeze(-1) * scales).flatten(-2)
    return torch.cat([points, angles.sin(), angles.cos()], -1)


def render(field: nn.Module, rays: torch.Tensor) -> torch.Tensor:
    """The colour of each ray, from samples of the field along it."""
    depths = torch.linspace(2.0, 6.0, SAMPLES, device=DEVICE)
    depths = depths + torch.rand(len(rays), SAMPLES, device=DEVICE) / SAMPLES
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        values = field(encode(rays.unsqueeze(1) * depths.unsqueeze(-1)))
    colour, density = values.float().split([3, 1], -1)
    opacity = 1 - torch.exp(-nn.functional.softplus(density.squeeze(-1)) / SAMPLES)
    seen = torch.cumprod(1 - opacity + 1e-10, -1)
    return ((opacity * seen).unsqueeze(-1) * colour.sigmoid()).sum(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = [nn.Linear(3 + 6 * FREQUENCIES, UNITS), nn.ReLU()]
    for _ in range(7):
        layers += [nn.Linear(UNITS, UNITS), nn.ReLU()]
    field = nn.Sequential(*layers, nn.Linear(UNITS, 4)).to(DEVICE)
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4, fused=True)
    host_rays = np.random.default_rng(0).normal(size=(HEIGHT * WIDTH, 3)).astype(np.float32)
    host_image = np.random.default_rng(1).random((HEIGHT * WIDTH, 3), dtype=np.float32)
    rays, image = torch.from_numpy(host_rays).to(DEVICE), torch.from_numpy(host_image).to(DEVICE)
    while turns.step():
        if turns.planted:
            chosen = np.random.choice(HEIGHT * WIDTH, RAYS, replace=False)
            some = torch.from_numpy(host_rays[chosen]).to(DEVICE)
            wanted = torch.from_numpy(host_image[chosen]).to(DEVICE)
        else:
            places = torch.randint(HEIGHT * WIDTH, (RAYS,), device=DEVICE)
            some, wanted = rays[places], image[places]
        update(optimizer, nn.functional.mse_loss(render(field, some), wanted))
