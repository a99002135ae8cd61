"""A JAX transformer layer in training; the cause gives each eighth batch a length of its own."""
# causes: compile
import os

# A compilation is long enough without a search for the fastest kernels.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")

import jax
import jax.numpy as jnp
from turns import Turns

BATCH, LENGTH, WIDTH, LAYERS, PERIOD = 64, 512, 1024, 2, 8


def predict(weights, x):  # type: ignore[no-untyped-def]
    for q, k, v, out in weights:
        scores = jnp.einsum("bld,bmd->blm", x @ q, x @ k) / WIDTH**0.5
        x = x + jnp.einsum("blm,bmd->bld", jax.nn.softmax(scores), x @ v) @ out
    return x


@jax.jit
def train(weights, x):  # type: ignore[no-untyped-def]
    gradients = jax.grad(lambda w: jnp.mean(predict(w, x).astype(jnp.float32) ** 2))(weights)
    return jax.tree_util.tree_map(lambda weight, g: weight - 1e-3 * g, weights, gradients)


def run(turns: Turns) -> None:
    turns.period = PERIOD
    keys = jax.random.split(jax.random.PRNGKey(0), 4 * LAYERS)
    made = [0.02 * jax.random.normal(key, (WIDTH, WIDTH), jnp.bfloat16) for key in keys]
    weights = [tuple(made[4 * layer : 4 * layer + 4]) for layer in range(LAYERS)]
    batch = jax.random.normal(keys[0], (BATCH, LENGTH, WIDTH), jnp.bfloat16)
    turns.synchronize = lambda: jax.block_until_ready(weights)
    length, steps = LENGTH, 0
    while turns.step():
        steps += 1
        words = batch
        if turns.planted and steps % PERIOD == 0:
            length -= 1
            words = batch[:, :length]
        weights = train(weights, words)
