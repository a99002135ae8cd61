"""Molecular dynamics of a Lennard-Jones fluid; the cause finds neighbours by SciPy on the host.

A step has 30 moves with one list of neighbours.
"""
# causes: idle, pageable_copy
import numpy as np
import torch
from parts import DEVICE, use_gpu
from scipy.spatial import cKDTree
from turns import Turns

EDGE, MOVES, TIME = 18, 30, 0.002
ATOMS, CUT, REACH = EDGE**3, 2.5, 2.8
SIDE = (ATOMS / 0.75) ** (1 / 3)


def list_on_host(places: torch.Tensor) -> torch.Tensor:
    wrapped = np.mod(places.cpu().numpy().astype(np.float64), SIDE)
    pairs = cKDTree(wrapped, boxsize=SIDE).query_pairs(REACH, output_type="ndarray")
    return torch.from_numpy(pairs).to(DEVICE).T.contiguous()


def list_on_device(places: torch.Tensor) -> torch.Tensor:
    squares = torch.zeros(ATOMS, ATOMS, device=DEVICE)
    for axis in places.T:
        apart = axis[:, None] - axis
        squares += (apart - SIDE * (apart / SIDE).round()).square()
    return (squares < REACH**2).triu(1).nonzero().T.contiguous()


def sum_forces(places: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    first, second = pairs
    apart = places[first] - places[second]
    apart = apart - SIDE * (apart / SIDE).round()
    square = apart.square().sum(-1, keepdim=True).clamp(min=0.7)
    sixth = square**-3
    strength = 24 * (2 * sixth * sixth - sixth) / square
    force = torch.where(square < CUT**2, strength, 0.0) * apart
    total = torch.zeros_like(places)
    return total.index_add_(0, first, force).index_add_(0, second, force, alpha=-1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    line = (torch.arange(EDGE, device=DEVICE) + 0.5) * (SIDE / EDGE)
    places = torch.cartesian_prod(line, line, line)
    speeds = torch.randn(ATOMS, 3, device=DEVICE)
    while turns.step():
        pairs = (list_on_host if turns.planted else list_on_device)(places)
        for _ in range(MOVES):
            speeds = speeds + TIME * sum_forces(places, pairs)
            places = places + TIME * speeds
