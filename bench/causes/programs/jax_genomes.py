"""Variants of genomes scored by a transformer of DNA in JAX; the cause writes attention by einsum and softmax.

The fix calls `jax.nn.dot_product_attention` with cuDNN's implementation.
"""
# causes: unfused_attention
import functools

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, LETTERS, BATCHES = 12, 2048, 1024, 16, 10, 6, 4

Layer = dict[str, jax.Array]


def make_layers(random: np.random.Generator) -> list[Layer]:
    shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    return [
        {
            name: jnp.asarray(0.02 * random.standard_normal(shape), jnp.bfloat16)
            for name, shape in shapes.items()
        }
        for _ in range(LAYERS)
    ]


def normalize(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    spread = jnp.square(centered).mean(-1, keepdims=True)
    return (centered * jax.lax.rsqrt(spread + 1e-5)).astype(x.dtype)


def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """What each place takes of all others; all are (batch, place, head, width)."""
    scores = jnp.einsum("bqhw,bkhw->bhqk", q, k) / q.shape[-1] ** 0.5
    shares = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhw->bqhw", shares, v)


@functools.partial(jax.jit, static_argnames="fused")
def score(layers: list[Layer], table: jax.Array, letters: jax.Array, fused: bool) -> jax.Array:
    """The logarithm of each sequence's likelihood, letter by letter."""
    x = table[letters]
    for layer in layers:
        parts = (normalize(x) @ layer["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
        if fused:
            mixed = jax.nn.dot_product_attention(q, k, v, implementation="cudnn")
        else:
            mixed = attend(q, k, v)
        x = x + mixed.reshape(BATCH, LENGTH, WIDTH) @ layer["out"]
        x = x + jax.nn.gelu(normalize(x) @ layer["up"]) @ layer["down"]
    logits = (normalize(x) @ table.T).astype(jnp.float32)
    found = jnp.take_along_axis(jax.nn.log_softmax(logits), letters[..., None], axis=-1)
    return found[..., 0].sum(1)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    layers = make_layers(random)
    table = jnp.asarray(0.02 * random.standard_normal((LETTERS, WIDTH)), jnp.bfloat16)
    genomes = random.integers(LETTERS, size=(BATCHES, BATCH, LENGTH), dtype=np.int32)
    scores: list[np.ndarray] = []
    while turns.step():
        letters = genomes[len(scores) % BATCHES]
        scores.append(np.asarray(score(layers, table, letters, fused=not turns.planted)))
