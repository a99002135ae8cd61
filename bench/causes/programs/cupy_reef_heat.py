"""Heat and salt in the water above a reef, in CuPy; the cause is CuPy's default of 64 bits for all fields.

The forecast is compared with buoys of 1 %. The fix makes the fields with dtype=cp.float32.
"""
# causes: double_precision
from dataclasses import dataclass

import cupy as cp
from turns import Turns

DEPTH, SIDE, PARTS = 48, 768, 2
MIXING, COOLING, RAIN, DEPTH_SCALE = 0.12, 0.004, 0.001, 0.05


@dataclass
class Water:
    """Fields of depth, row and column."""

    heat: cp.ndarray
    salt: cp.ndarray
    light: cp.ndarray


def fill_basin(dtype: type) -> Water:
    """Warm water above cold water, with noise."""
    shape = (DEPTH, SIDE, SIDE)
    depth = cp.arange(DEPTH, dtype=dtype).reshape(-1, 1, 1)
    heat = (28 - 0.2 * depth + cp.random.random(shape, dtype=cp.float32)).astype(dtype)
    salt = (35 + 0.02 * depth + cp.random.random(shape, dtype=cp.float32)).astype(dtype)
    return Water(heat, salt, cp.exp(-DEPTH_SCALE * depth).astype(dtype))


def mix(field: cp.ndarray) -> cp.ndarray:
    """What flows into each cell from those above, below and beside it."""
    flow = cp.zeros_like(field)
    for axis in range(3):
        difference = cp.diff(field, axis=axis)
        before = [slice(None)] * 3
        after = list(before)
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        flow[tuple(before)] += difference
        flow[tuple(after)] -= difference
    return flow


def advance(water: Water) -> None:
    """One step of time: mixing, the sun, cooling and rain at the surface."""
    for _ in range(PARTS):
        density = 0.8 * water.salt - 0.2 * water.heat
        stable = 1 / (1 + cp.square(density - density.mean()))
        water.heat += MIXING * stable * mix(water.heat) + 0.001 * water.light
        water.salt += MIXING * stable * mix(water.salt)
        water.heat[0] -= COOLING * (water.heat[0] - 26)
        water.salt[0] -= RAIN * (water.salt[0] - 34)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    double, single = (fill_basin(each) for each in (cp.float64, cp.float32))
    while turns.step():
        advance(double if turns.planted else single)
