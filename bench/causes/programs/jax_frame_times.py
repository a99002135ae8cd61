"""Waves over a sea in JAX; the cause waits for each call of the compiled move, to show how fast it is.

The fix measures all calls of a part together.
"""
# causes: synchronization, idle
import time

import jax
import jax.numpy as jnp
from turns import Turns

SIDE, SWEEPS, CALLS, TIME, GRAVITY = 2048, 6, 40, 1e-3, 9.81


def shift(field, rows, columns):  # type: ignore[no-untyped-def]
    return jnp.roll(field, (rows, columns), (0, 1))


def slope(field):  # type: ignore[no-untyped-def]
    """The differences along both directions."""
    along = 0.5 * (shift(field, -1, 0) - shift(field, 1, 0))
    across = 0.5 * (shift(field, 0, -1) - shift(field, 0, 1))
    return along, across


@jax.jit
def move(sea):  # type: ignore[no-untyped-def]
    """Height and speeds of the water some times later."""
    height, along, across = sea
    for _ in range(SWEEPS):
        down, right = slope(height)
        along = along - TIME * GRAVITY * down
        across = across - TIME * GRAVITY * right
        height = height - TIME * (slope(height * along)[0] + slope(height * across)[1])
    return height, along, across


def run(turns: Turns) -> None:
    bump = jnp.exp(-jnp.linspace(-6, 6, SIDE) ** 2)
    still = jnp.zeros((SIDE, SIDE))
    sea = 1 + 0.1 * bump[:, None] * bump[None], still, still
    turns.synchronize = lambda: jax.block_until_ready(sea)
    rates = []
    while turns.step():
        begin = time.perf_counter()
        for _ in range(CALLS):
            if turns.planted:
                start = time.perf_counter()
                sea = jax.block_until_ready(move(sea))
                rates.append(1 / (time.perf_counter() - start))
            else:
                sea = move(sea)
        if not turns.planted:
            jax.block_until_ready(sea)
            rates.append(CALLS / (time.perf_counter() - begin))
