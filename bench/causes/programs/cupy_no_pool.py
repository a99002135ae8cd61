"""Shallow water in CuPy; the cause turns the memory pool off, so each array is allocated anew."""
# causes: allocation
import cupy as cp
from turns import Turns

SIZE, MOVES, PACE, DRAG = 2048, 2, 0.05, 0.01


def slope(field: cp.ndarray, axis: int) -> cp.ndarray:
    return 0.5 * (cp.roll(field, -1, axis) - cp.roll(field, 1, axis))


def move(
    height: cp.ndarray, east: cp.ndarray, north: cp.ndarray
) -> tuple[cp.ndarray, cp.ndarray, cp.ndarray]:
    """Height and speeds of the water a moment later."""
    flow = slope(height * east, 1) + slope(height * north, 0)
    along = east * slope(east, 1) + north * slope(east, 0) + slope(height, 1)
    across = east * slope(north, 1) + north * slope(north, 0) + slope(height, 0)
    return (
        height - PACE * flow,
        east - PACE * (along + DRAG * east),
        north - PACE * (across + DRAG * north),
    )


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    pool = cp.get_default_memory_pool()
    place = cp.linspace(-4, 4, SIZE, dtype=cp.float32)
    height = 1 + 0.1 * cp.exp(-(place[:, None] ** 2) - place**2)
    state = (height, cp.zeros_like(height), cp.zeros_like(height))
    while turns.step():
        cp.cuda.set_allocator(None if turns.planted else pool.malloc)
        for _ in range(MOVES):
            state = move(*state)
