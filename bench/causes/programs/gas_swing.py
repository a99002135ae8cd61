"""A contract for gas with rights to buy (least squares Monte Carlo) in PyTorch; fix: torch.compile.

The cause moves the prices of each day by a row of operations on all paths. The fix compiles that
move. What the rights are worth is found day by day backwards, the same way in both.
"""
# causes: unfused_elementwise
import math

import torch
from parts import DEVICE, use_gpu
from turns import Turns

CHUNKS, LENGTH, DAYS, RIGHTS, STRIKE = 2048, 2048, 24, 5, 1.0
DAY = 1 / 252
ROOT = math.sqrt(DAY)

State = tuple[torch.Tensor, ...]


def move(short: torch.Tensor, long: torch.Tensor, spike: torch.Tensor, rate: torch.Tensor,
         draws: torch.Tensor, season: torch.Tensor) -> State:  # fmt: skip
    """A day later: two factors of the price, spikes, the variance, and the price."""
    one, two, three, four = draws.unbind()
    variance = rate.clamp(min=0)
    swing = variance.sqrt() * ROOT
    short = short * (1 - 3.0 * DAY) + swing * one - 0.5 * variance * DAY
    long = long + 0.02 * DAY + 0.15 * ROOT * (0.3 * one + 0.954 * two)
    jump = torch.where(four > 2.3, 0.2 + 0.1 * (four - 2.3), torch.zeros_like(four))
    spike = spike * math.exp(-40 * DAY) + jump
    rate = rate + 4.0 * (0.25 - variance) * DAY + 0.5 * swing * (0.4 * one + 0.9165 * three)
    return short, long, spike, rate, torch.exp(season + short + long + spike)


def value_day(value: torch.Tensor, price: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    """The value of 0 to RIGHTS rights a day earlier; a right is used where that pays more."""
    basis = torch.stack((torch.ones_like(price), price, price * price, rate, price * rate), 1)
    turned = basis.transpose(1, 2)
    squares = (basis @ turned).mean(0) + 1e-4 * torch.eye(5, device=DEVICE)
    products = (value @ turned).mean(0)
    weights = torch.linalg.solve_ex(squares, products.T)[0].T
    kept = weights.expand(CHUNKS, -1, -1) @ basis
    paid = (price - STRIKE)[:, None]
    used = paid + kept[:, :-1] > kept[:, 1:]
    later = torch.where(used, paid + value[:, :-1], value[:, 1:])
    return torch.cat((value[:, :1], later), 1)


def simulate(move_day, seasons: list[torch.Tensor]):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Prices and variances of each day."""
    short, long, spike = (torch.zeros(CHUNKS, LENGTH, device=DEVICE) for _ in range(3))
    rate = torch.full_like(short, 0.25)
    days = []
    for season in seasons:
        draws = torch.randn(4, CHUNKS, LENGTH, device=DEVICE)
        short, long, spike, rate, price = move_day(short, long, spike, rate, draws, season)
        days.append((price, rate))
    return days


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    compiled = torch.compile(move)
    seasons = [torch.tensor(0.1 * math.sin(day / 4), device=DEVICE) for day in range(DAYS)]
    worth = []
    while turns.step():
        days = simulate(move if turns.planted else compiled, seasons)
        value = torch.zeros(CHUNKS, RIGHTS + 1, LENGTH, device=DEVICE)
        for price, rate in reversed(days):
            value = value_day(value, price, rate)
        worth.append(value.mean((0, 2)))
