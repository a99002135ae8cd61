"""A flame in JAX, its chemistry by a network; the cause asks for the highest precision of all products.

It does so by `jax.default_matmul_precision`, as for other parts of the solver. The fix leaves the
default, which is TF32 on the GPU.
"""
# causes: no_tensor_cores
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

ROWS, COLUMNS, SPECIES, WIDTH, LAYERS, MOVES = 256, 1024, 12, 768, 3, 600
SPREAD, WIND, RATE = 0.1, 0.2, 0.02


def carry(species):  # type: ignore[no-untyped-def]
    """Some moves of diffusion, and of a wind along the rows."""

    def move(_, now):  # type: ignore[no-untyped-def]
        around = sum(jnp.roll(now, by, axis) for axis in (1, 2) for by in (1, -1))
        return now + SPREAD * (around - 4 * now) - WIND * (now - jnp.roll(now, 1, 2))

    return jax.lax.fori_loop(0, MOVES, move, species)


def react(weights, species):  # type: ignore[no-untyped-def]
    """How fast each species is made, cell by cell."""
    first, hidden, last = weights
    x = jax.nn.silu(species.reshape(SPECIES, -1).T @ first)
    for kernel in hidden:
        x = jax.nn.silu(x @ kernel)
    return jnp.tanh(x @ last).T.reshape(species.shape)


@jax.jit
def burn(weights, species):  # type: ignore[no-untyped-def]
    species = carry(species)
    return jnp.clip(species + RATE * react(weights, species), 0, 1)


def make_weights(random: np.random.Generator):  # type: ignore[no-untyped-def]
    def make(*shape: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, np.float32) / shape[0] ** 0.5)

    hidden = [make(WIDTH, WIDTH) for _ in range(LAYERS)]
    return make(SPECIES, WIDTH), hidden, make(WIDTH, SPECIES)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    weights = make_weights(random)
    species = jnp.asarray(random.random((SPECIES, ROWS, COLUMNS), np.float32))
    turns.synchronize = lambda: jax.block_until_ready(species)
    while turns.step():
        with jax.default_matmul_precision("highest" if turns.planted else "default"):
            species = burn(weights, species)
