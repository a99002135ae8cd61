"""Gray-Scott patterns for a sweep of rates in JAX; the cause simulates the small grids one after another.

The fix simulates all grids of the sweep at once by vmap.
"""

# causes: unused_gpu, tiny_kernels
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

GRIDS, SIDE, STEPS = 6, 384, 240
SPREAD_U, SPREAD_V = 0.16, 0.08
FEEDS = np.linspace(0.030, 0.055, GRIDS, dtype=np.float32)
KILLS = np.linspace(0.057, 0.064, GRIDS, dtype=np.float32)

State = tuple[jax.Array, jax.Array]


def find_curvature(field: jax.Array) -> jax.Array:
    """The five-point Laplacian on a torus."""
    rows = jnp.roll(field, 1, 0) + jnp.roll(field, -1, 0)
    columns = jnp.roll(field, 1, 1) + jnp.roll(field, -1, 1)
    return rows + columns - 4 * field


def simulate(u: jax.Array, v: jax.Array, feed: jax.Array, kill: jax.Array) -> State:
    """The two substances of one grid after some steps."""

    def advance(state: State, _: None) -> tuple[State, None]:
        u, v = state
        reaction = u * v * v
        new_u = u + SPREAD_U * find_curvature(u) - reaction + feed * (1 - u)
        new_v = v + SPREAD_V * find_curvature(v) + reaction - (feed + kill) * v
        return (new_u, new_v), None

    return jax.lax.scan(advance, (u, v), None, length=STEPS)[0]


simulate_one = jax.jit(simulate)


@jax.jit
def simulate_all(states: list[State]) -> list[State]:
    """As simulate_one for each grid."""
    u, v = (jnp.stack(fields) for fields in zip(*states, strict=True))
    u, v = jax.vmap(simulate)(u, v, FEEDS, KILLS)
    return [(u[grid], v[grid]) for grid in range(GRIDS)]


def draw_states() -> list[State]:
    """Grids full of one substance, with random grains of the other."""
    states = []
    for key in jax.random.split(jax.random.PRNGKey(0), GRIDS):
        grains = jax.random.bernoulli(key, 0.02, (SIDE // 8, SIDE // 8)).astype(jnp.float32)
        grains = jnp.repeat(jnp.repeat(grains, 8, 0), 8, 1)
        states.append((1 - 0.5 * grains, 0.25 * grains))
    return states


def run(turns: Turns) -> None:
    states: Any = draw_states()
    rates = [
        (jnp.asarray(feed), jnp.asarray(kill)) for feed, kill in zip(FEEDS, KILLS, strict=True)
    ]
    turns.synchronize = lambda: jax.block_until_ready(states)
    while turns.step():
        if turns.planted:
            states = [
                simulate_one(u, v, feed, kill)
                for (u, v), (feed, kill) in zip(states, rates, strict=True)
            ]
        else:
            states = simulate_all(states)
