"""A transformer of words in JAX; the cause writes its weights in each tenth step by pickle, and waits.

The fix writes them in a thread.
"""
# causes: idle, pageable_copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS, PERIOD, RATE = 64, 256, 640, 10, 4, 8192, 10, 1e-4

Weights = dict[str, jax.Array]


def make_weights(random: np.random.Generator) -> Weights:
    shapes = {"words": (WORDS, WIDTH), "places": (LENGTH, WIDTH)}
    for layer in range(LAYERS):
        shapes[f"{layer}/qkv"] = (WIDTH, 3 * WIDTH)
        shapes[f"{layer}/out"] = (WIDTH, WIDTH)
        shapes[f"{layer}/up"] = (WIDTH, 4 * WIDTH)
        shapes[f"{layer}/down"] = (4 * WIDTH, WIDTH)
    return {
        name: jnp.asarray(0.02 * random.standard_normal(shape, np.float32))
        for name, shape in shapes.items()
    }


def normalize(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def compute_loss(weights: Weights, words: jax.Array) -> jax.Array:
    weights = {name: weight.astype(jnp.bfloat16) for name, weight in weights.items()}
    x = weights["words"][words] + weights["places"]
    for layer in range(LAYERS):
        qkv = normalize(x) @ weights[f"{layer}/qkv"]
        q, k, v = jnp.moveaxis(qkv.reshape(BATCH, LENGTH, 3, HEADS, -1), 2, 0)
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.reshape(x.shape) @ weights[f"{layer}/out"]
        x = x + jax.nn.gelu(normalize(x) @ weights[f"{layer}/up"]) @ weights[f"{layer}/down"]
    logits = (normalize(x) @ weights["words"].T).astype(jnp.float32)[:, :-1]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), words[:, 1:, None], 2).mean()


@jax.jit
def train(weights: Weights, speeds: Weights, words: jax.Array) -> tuple[Weights, Weights]:
    """A step by momentum."""
    gradients = jax.grad(compute_loss)(weights, words)
    speeds = {name: 0.9 * speeds[name] + gradients[name] for name in weights}
    return {name: weights[name] - RATE * speeds[name] for name in weights}, speeds


def write(weights: Weights) -> None:
    with Path("/tmp/jax_checkpoint.pickle").open("wb") as file:
        pickle.dump(jax.device_get(weights), file, protocol=pickle.HIGHEST_PROTOCOL)


def run(turns: Turns) -> None:
    turns.period = PERIOD
    random = np.random.default_rng(0)
    weights = make_weights(random)
    speeds = {name: jnp.zeros_like(weight) for name, weight in weights.items()}
    batches = jnp.asarray(random.integers(WORDS, size=(16, BATCH, LENGTH)))
    turns.synchronize = lambda: jax.block_until_ready(weights)
    steps = 0
    with ThreadPoolExecutor(1) as pool:
        while turns.step():
            weights, speeds = train(weights, speeds, batches[steps % 16])
            steps += 1
            if steps % PERIOD == 0:
                if turns.planted:
                    write(weights)
                else:
                    pool.submit(write, weights)
