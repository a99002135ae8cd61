"""A network of molecules as text in equinox; the cause codes letters as one-hot rows on the host.

NumPy writes the rows and a large copy brings them. The fix uploads the letters' numbers and codes
them on the GPU.
"""

# causes: idle, pageable_copy
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from turns import Turns

MOLECULES, BATCH, LENGTH, LETTERS, WIDTH, LAYERS = 16384, 1536, 128, 64, 320, 3
TABLE = np.eye(LETTERS, dtype=np.float32)


class Network(eqx.Module):
    """One molecule's letters, one-hot (length, letters), to its solubility."""

    layers: list[eqx.nn.Conv1d]
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, LAYERS + 1)
        widths = [LETTERS] + LAYERS * [WIDTH]
        self.layers = [
            eqx.nn.Conv1d(before, after, 5, padding=2, key=each)
            for before, after, each in zip(widths[:-1], widths[1:], keys[1:], strict=True)
        ]
        self.head = eqx.nn.Linear(WIDTH, 1, key=keys[0])

    def __call__(self, letters: jax.Array) -> jax.Array:
        hidden = letters.T
        for layer in self.layers:
            hidden = jax.nn.silu(layer(hidden))
        return self.head(hidden.mean(1))[0]


def compute_loss(network: Network, letters: jax.Array, measured: jax.Array) -> jax.Array:
    if letters.ndim == 2:
        letters = jax.nn.one_hot(letters, LETTERS)
    return jnp.mean((jax.vmap(network)(letters) - measured) ** 2)


def run(turns: Turns) -> None:
    network, optimizer = Network(jax.random.PRNGKey(0)), optax.adam(1e-4)
    state = optimizer.init(eqx.filter(network, eqx.is_array))
    rng = np.random.default_rng(0)
    texts = rng.integers(0, LETTERS, (MOLECULES, LENGTH), dtype=np.int32)
    solubility = rng.standard_normal(MOLECULES, dtype=np.float32)

    @eqx.filter_jit
    def train(network: Network, state: Any, letters: Any, measured: Any) -> tuple[Any, Any, Any]:
        loss, gradients = eqx.filter_value_and_grad(compute_loss)(network, letters, measured)
        updates, state = optimizer.update(gradients, state)
        return eqx.apply_updates(network, updates), state, loss

    loss = jnp.zeros(())
    turns.synchronize = lambda: jax.block_until_ready(loss)
    while turns.step():
        chosen = rng.integers(0, MOLECULES, BATCH)
        letters, measured = texts[chosen], solubility[chosen]
        if turns.planted:
            letters = TABLE[letters]
        network, state, loss = train(network, state, jnp.asarray(letters), jnp.asarray(measured))
