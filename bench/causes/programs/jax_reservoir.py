"""An oil field followed by an ensemble Kalman filter in JAX; the cause corrects the ensemble by NumPy.

It brings all members to the host for what the wells have measured, and copies them back. The fix
corrects them by the same formulas in a compiled function.
"""
# causes: idle, pageable_copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

MEMBERS, SIDE, WELLS, SWEEPS, VARIANCE = 128, 256, 64, 1200, 0.01
CELLS = SIDE * SIDE


@jax.jit
def forecast(states, rocks):  # type: ignore[no-untyped-def]
    """The pressure of each member some time later, in its own rock."""

    def sweep(_, fields):  # type: ignore[no-untyped-def]
        around = sum(jnp.roll(fields, by, axis) for axis in (1, 2) for by in (1, -1))
        return fields + rocks * (around - 4 * fields)

    fields = states.reshape(MEMBERS, SIDE, SIDE)
    return jax.lax.fori_loop(0, SWEEPS, sweep, fields).reshape(MEMBERS, CELLS)


def correct(xp, states, wells, measured):  # type: ignore[no-untyped-def]
    """Members moved towards what each was told; `xp` is numpy or jax.numpy."""
    apart = states - states.mean(0)
    seen = apart[:, wells]
    spread = seen.T @ seen / (MEMBERS - 1) + VARIANCE * xp.eye(WELLS, dtype=xp.float32)
    weights = xp.linalg.solve(spread, (measured - states[:, wells]).T)
    return states + (seen @ weights).T / (MEMBERS - 1) @ apart


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    states = jnp.asarray(random.random((MEMBERS, CELLS), np.float32))
    rocks = jnp.asarray(0.05 + 0.15 * random.random((MEMBERS, SIDE, SIDE), np.float32))
    wells = random.choice(CELLS, WELLS, replace=False)
    truth = random.random(WELLS, np.float32)
    correct_on_gpu = jax.jit(functools.partial(correct, jnp))
    turns.synchronize = lambda: jax.block_until_ready(states)
    while turns.step():
        measured = truth + 0.1 * random.standard_normal((MEMBERS, WELLS), np.float32)
        states = forecast(states, rocks)
        if turns.planted:
            states = jnp.asarray(correct(np, np.asarray(states), wells, measured))
        else:
            states = correct_on_gpu(states, wells, measured)
