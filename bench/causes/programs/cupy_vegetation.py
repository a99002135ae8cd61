"""Vegetation of satellite tiles in CuPy; the cause takes each statistic of a tile as a float.

Each float() waits for the GPU. The fix leaves the statistics there and fetches all rows at the end.
"""

# causes: synchronization
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np
from turns import Turns

SIZE, TILES, LIMITS = 2048, 40, (0.45, 0.8)


def draw_bands() -> tuple[cp.ndarray, cp.ndarray, cp.ndarray]:
    """Red and infrared light of the tiles, and how likely a pixel is a cloud."""
    shape = (TILES, SIZE, SIZE)
    red, infrared, cloud = (cp.random.random(shape, dtype=cp.float32) for _ in range(3))
    return 0.02 + 0.2 * red, 0.1 + 0.5 * infrared, cloud


def compute_index(red: cp.ndarray, infrared: cp.ndarray) -> cp.ndarray:
    """The vegetation index with a correction for bare soil."""
    index = 1.5 * (infrared - red) / (infrared + red + 0.5)
    return cp.clip(index, -1, 1)


def leave(value: cp.ndarray) -> cp.ndarray:
    return value


def measure(index: cp.ndarray, cloud: cp.ndarray, take: Callable[[Any], Any]) -> list[Any]:
    """Count, mean and variance of the clear pixels, and of those that are no thick cloud."""
    numbers = []
    for limit in LIMITS:
        chosen = cloud < limit
        count = take(chosen.sum(dtype=cp.float32))
        mean = take((index * chosen).sum() / count)
        variance = take((cp.square(index - mean) * chosen).sum() / count)
        numbers += [count, mean, variance]
    return numbers


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    red, infrared, cloud = draw_bands()
    while turns.step():
        rows = []
        for tile in range(TILES):
            index = compute_index(red[tile], infrared[tile])
            if turns.planted:
                rows.append(measure(index, cloud[tile], float))
            else:
                rows.append(cp.stack(measure(index, cloud[tile], leave)))
        np.array(rows) if turns.planted else cp.stack(rows).get()
