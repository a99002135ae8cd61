"""A wildfire on a grid in numba; the cause passes the map of the ground as a NumPy array.

So numba copies the map to the GPU and back at each call. The fix keeps it there by cuda.to_device.
"""

# ruff: noqa: ANN001, ANN201 - kernels take arrays of numba
# causes: pageable_copy
import math
import warnings
from typing import Any

import numpy as np
from numba import cuda
from turns import Turns

SIZE, SUBSTEPS = 4096, 48
BLOCK = (32, 8)
GRID = (SIZE // BLOCK[0], SIZE // BLOCK[1])
ZERO, ONE, SPREAD, COOLING = np.float32(0), np.float32(1), np.float32(0.2), np.float32(0.03)
BURNING, STEEP, DRIED = np.float32(0.4), np.float32(30), np.float32(0.001)


@cuda.jit
def dry(ground, wet):
    """Let the ground's slope and heat dry the fuel."""
    column, row = cuda.grid(2)
    if row < SIZE and column < SIZE:
        wet[row, column] = max(wet[row, column] - DRIED * ground[row, column], ZERO)


@cuda.jit
def spread(heat, fuel, wet, following):
    """Let heat flow to the neighbours of a cell and burn its fuel."""
    column, row = cuda.grid(2)
    if row < 1 or column < 1 or row >= SIZE - 1 or column >= SIZE - 1:
        return
    here = heat[row, column]
    near = heat[row - 1, column] + heat[row + 1, column]
    near += heat[row, column - 1] + heat[row, column + 1]
    flow = SPREAD * (near - here - here - here - here)
    share = ONE / (ONE + math.exp(STEEP * (BURNING - here)))
    burnt = COOLING * fuel[row, column] * share * math.exp(-wet[row, column])
    fuel[row, column] -= burnt
    following[row, column] = here + flow + burnt - COOLING * COOLING * here


def draw_maps() -> tuple[np.ndarray, list[Any]]:
    """The ground on the host; heat, fuel, water and the coming heat on the GPU."""
    rng = np.random.default_rng(0)
    ground, heat, fuel, wet = (rng.random((SIZE, SIZE), dtype=np.float32) for _ in range(4))
    return ground, [cuda.to_device(each) for each in (heat, fuel, wet, np.zeros_like(heat))]


def run(turns: Turns) -> None:
    # numba warns at each call with an array of the host.
    warnings.simplefilter("ignore")
    turns.synchronize = cuda.synchronize
    ground, (heat, fuel, wet, following) = draw_maps()
    kept = cuda.to_device(ground)
    while turns.step():
        dry[GRID, BLOCK](ground if turns.planted else kept, wet)
        for _ in range(SUBSTEPS):
            spread[GRID, BLOCK](heat, fuel, wet, following)
            heat, following = following, heat
