"""Texts written by a transformer in JAX; the cause draws the next words outside of jit, operation by operation."""
# causes: host_bound, tiny_kernels
import functools

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

TEXTS, PLACES, WIDTH, HEADS, LAYERS, WORDS, WRITTEN, KEPT = 16, 512, 1024, 16, 8, 8192, 24, 64
SHAPES = {
    "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
}  # fmt: skip


def normalize(x):  # type: ignore[no-untyped-def]
    wide = x.astype(jnp.float32)
    return (wide / jnp.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def attend(layer, x, keys, values, place):  # type: ignore[no-untyped-def]
    """What each text's new word reads from the words before, and the caches with the new word."""
    q, k, v = (x @ layer["qkv"]).reshape(TEXTS, 3, HEADS, -1).swapaxes(0, 1)
    keys = jax.lax.dynamic_update_slice(keys, k[:, :, None], (0, 0, place, 0))
    values = jax.lax.dynamic_update_slice(values, v[:, :, None], (0, 0, place, 0))
    scores = jnp.einsum("bhd,bhpd->bhp", q, keys) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.arange(PLACES) <= place, scores, -1e9)
    mixed = jnp.einsum("bhp,bhpd->bhd", jax.nn.softmax(scores), values)
    return mixed.reshape(TEXTS, WIDTH) @ layer["out"], keys, values


def score(weights, caches, words, place):  # type: ignore[no-untyped-def]
    """The scores of all words that may follow, and the caches."""
    x, kept = weights["words"][words], []
    for layer, (keys, values) in zip(weights["layers"], caches, strict=True):
        read, keys, values = attend(layer, normalize(x), keys, values, place)
        x = x + read
        x = x + jax.nn.gelu(normalize(x) @ layer["up"]) @ layer["down"]
        kept.append((keys, values))
    return (normalize(x) @ weights["words"].T).astype(jnp.float32), kept


def draw(scores, counts, key):  # type: ignore[no-untyped-def]
    """The next word of each text, one of the likeliest and rather a new one; counts and key."""
    key, now = jax.random.split(key)
    scores = jnp.where(counts > 0, scores - 0.5 * counts, scores) / 0.8
    least = jax.lax.top_k(scores, KEPT)[0][:, -1:]
    scores = jnp.where(scores < least, -jnp.inf, scores)
    shares = jax.nn.softmax(scores)
    scores = jnp.where(shares < 0.02 * shares.max(-1, keepdims=True), -jnp.inf, scores)
    words = jax.random.categorical(now, scores)
    return words, counts.at[jnp.arange(TEXTS), words].add(1.0), key


@functools.partial(jax.jit, donate_argnums=1)
def score_and_draw(weights, caches, words, place, counts, key):  # type: ignore[no-untyped-def]
    scores, caches = score(weights, caches, words, place)
    return *draw(scores, counts, key), caches


def make_weights():  # type: ignore[no-untyped-def]
    random = np.random.default_rng(0)

    def make(*shape):  # type: ignore[no-untyped-def]
        return jnp.asarray(0.02 * random.standard_normal(shape, np.float32), jnp.bfloat16)

    layers = [{name: make(*shape) for name, shape in SHAPES.items()} for _ in range(LAYERS)]
    return {"words": make(WORDS, WIDTH), "layers": layers}


def run(turns: Turns) -> None:
    weights, key = make_weights(), jax.random.PRNGKey(0)
    shape = TEXTS, HEADS, PLACES, WIDTH // HEADS
    caches = [tuple(jnp.zeros(shape, jnp.bfloat16) for _ in range(2)) for _ in range(LAYERS)]
    scoring = jax.jit(score, donate_argnums=1)
    texts = []
    while turns.step():
        words, counts, text = jnp.zeros(TEXTS, jnp.int32), jnp.zeros((TEXTS, WORDS)), []
        for place in range(PLACES - WRITTEN, PLACES):
            if turns.planted:
                scores, caches = scoring(weights, caches, words, place)
                words, counts, key = draw(scores, counts, key)
            else:
                words, counts, key, caches = score_and_draw(
                    weights, caches, words, place, counts, key
                )
            text.append(words)
        texts.append(np.stack([np.asarray(words) for words in text]))
