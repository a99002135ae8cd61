"""Prices and deltas of 12 million options by Black and Scholes in PyTorch; fix: torch.compile."""
# causes: unfused_elementwise
import math

import torch
from parts import DEVICE, use_gpu
from turns import Turns

OPTIONS, RATE = 12_000_000, 0.03


def spread_normal(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def price(
    spot: torch.Tensor, strike: torch.Tensor, years: torch.Tensor, volatility: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Call, put and delta."""
    root = volatility * torch.sqrt(years)
    d1 = (torch.log(spot / strike) + (RATE + 0.5 * volatility**2) * years) / root
    d2 = d1 - root
    discounted = strike * torch.exp(-RATE * years)
    delta = spread_normal(d1)
    call = spot * delta - discounted * spread_normal(d2)
    return call, call - spot + discounted, delta


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    spot, strike = (torch.rand(OPTIONS, device=DEVICE) * 100 + 50 for _ in range(2))
    years, volatility = (torch.rand(OPTIONS, device=DEVICE) + 0.1 for _ in range(2))
    compiled = torch.compile(price)
    while turns.step():
        call, put, delta = (price if turns.planted else compiled)(spot, strike, years, volatility)
        torch.stack((call.sum(), put.sum(), (delta * spot).sum()))
