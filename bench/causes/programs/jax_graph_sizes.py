"""Energies of molecules by messages in JAX; the cause leaves the last batch of each file as small as it is.

Its size is a new one each time, so JAX compiles again. The fix pads it to the size of the others.
"""
# causes: compile
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from turns import Turns

ATOMS, BONDS, WIDTH, LAYERS, KINDS, PERIOD, RATE = 32_768, 131_072, 256, 6, 64, 14, 1e-4

Batch = tuple[jax.Array, jax.Array, jax.Array]


def compute_energies(weights: Any, atoms: jax.Array, bonds: jax.Array) -> jax.Array:  # noqa: ANN401
    """The energy of each atom; bonds: (2, bonds), from an atom to another."""

    def pass_messages(x: jax.Array, layer: Any) -> tuple[jax.Array, None]:  # noqa: ANN401
        messages = jax.nn.silu(x[bonds[0]] @ layer["send"] + x[bonds[1]] @ layer["take"])
        total = jax.ops.segment_sum(messages, bonds[1], num_segments=len(atoms))
        return x + jax.nn.silu(total @ layer["mix"]), None

    x, _ = jax.lax.scan(pass_messages, weights["kinds"][atoms], weights["layers"])
    return (x @ weights["head"])[:, 0]


def compute_loss(weights: Any, batch: Batch) -> jax.Array:  # noqa: ANN401
    """The mean square error of the atoms that are no padding; their number is below zero else."""
    atoms, bonds, energies = batch
    errors = (compute_energies(weights, jnp.maximum(atoms, 0), bonds) - energies) ** 2
    return jnp.where(atoms >= 0, errors, 0).sum() / (atoms >= 0).sum()


def make_weights() -> Any:  # noqa: ANN401
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 5))
    shape, names = (LAYERS, WIDTH, WIDTH), ("send", "take", "mix")
    return {
        "kinds": jax.random.normal(next(keys), (KINDS, WIDTH)),
        "layers": {name: jax.random.normal(next(keys), shape) * 0.5 / WIDTH**0.5 for name in names},
        "head": jax.random.normal(next(keys), (WIDTH, 1)) / WIDTH**0.5,
    }


def make_batch(random: np.random.Generator, atoms: int) -> tuple[np.ndarray, ...]:
    """A batch in the host's memory, its bonds within the atoms."""
    kinds = random.integers(KINDS, size=atoms, dtype=np.int32)
    bonds = random.integers(atoms, size=(2, atoms * (BONDS // ATOMS)), dtype=np.int32)
    return kinds, bonds, random.standard_normal(atoms, np.float32)


def pad(batch: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The batch with atoms of kind -1, and bonds between these."""
    kinds, bonds, energies = batch
    atoms, more = ATOMS - len(kinds), BONDS - bonds.shape[1]
    between = np.broadcast_to(len(kinds) + np.arange(more, dtype=np.int32) % atoms, (2, more))
    return (
        np.pad(kinds, (0, atoms), constant_values=-1),
        np.concatenate([bonds, between], 1),
        np.pad(energies, (0, atoms)),
    )


def run(turns: Turns) -> None:
    turns.period = PERIOD
    random = np.random.default_rng(0)
    weights, optimizer = make_weights(), optax.adam(RATE)
    state = optimizer.init(weights)

    @partial(jax.jit, donate_argnums=(0, 1))
    def train(weights: Any, state: Any, batch: Batch) -> tuple[Any, Any]:  # noqa: ANN401
        slopes = jax.grad(compute_loss)(weights, batch)
        updates, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, updates), state

    full = jax.device_put(make_batch(random, ATOMS))
    turns.synchronize = lambda: jax.block_until_ready(weights)
    steps = 0
    while turns.step():
        steps += 1
        batch = full
        if steps % PERIOD == 0:
            small = make_batch(random, ATOMS * 3 // 4 + 8 * (steps // PERIOD))
            batch = jax.device_put(small if turns.planted else pad(small))
        weights, state = train(weights, state, batch)
