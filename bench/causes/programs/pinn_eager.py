"""A physics-informed network (Navier-Stokes), launched from Python; the fix replays a CUDA graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, run_eager_or_graph, update, use_gpu
from torch import nn
from turns import Turns

POINTS, SEEN, WIDTH, LAYERS, VISCOSITY = 4096, 2048, 128, 6, 0.01


def differentiate(values: torch.Tensor, points: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The derivatives of values by x, y and time."""
    ones = torch.ones_like(values)
    return torch.autograd.grad(values, points, ones, create_graph=True)[0].unbind(-1)


def equation_loss(network: nn.Module) -> torch.Tensor:
    """How far the network is from the equations at random points."""
    points = torch.rand(POINTS, 3, device=DEVICE, requires_grad=True)
    u, v, pressure = network(points).unbind(-1)
    u_x, u_y, u_t = differentiate(u, points)
    v_x, v_y, v_t = differentiate(v, points)
    p_x, p_y, _ = differentiate(pressure, points)
    u_xx, u_yy = differentiate(u_x, points)[0], differentiate(u_y, points)[1]
    v_xx, v_yy = differentiate(v_x, points)[0], differentiate(v_y, points)[1]
    along = u_t + u * u_x + v * u_y + p_x - VISCOSITY * (u_xx + u_yy)
    across = v_t + u * v_x + v * v_y + p_y - VISCOSITY * (v_xx + v_yy)
    return along.square().mean() + across.square().mean() + (u_x + v_y).square().mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers: list[nn.Module] = [nn.Linear(3, WIDTH), nn.Tanh()]
    for _ in range(LAYERS - 1):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    network = nn.Sequential(*layers, nn.Linear(WIDTH, 3)).to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, capturable=True)
    seen = torch.rand(SEEN, 3, device=DEVICE)
    measured = torch.randn(SEEN, 3, device=DEVICE)

    def step() -> None:
        data_loss = nn.functional.mse_loss(network(seen), measured)
        update(optimizer, equation_loss(network) + data_loss)

    run_eager_or_graph(turns, step)
