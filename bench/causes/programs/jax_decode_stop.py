"""Texts written by a transformer in JAX; the cause asks after each word whether all texts have ended.

It calls a compiled pass for each word. The fix writes 16 words in one compiled scan, then asks.
"""
# causes: host_bound, synchronization, idle
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS, CHUNK, STOP = 8, 512, 512, 8, 6, 4096, 16, 0

Layer = dict[str, jax.Array]
State = tuple[jax.Array, jax.Array, list[Layer], jax.Array]


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
    square = jnp.square(x.astype(jnp.float32)).mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(square + 1e-6).astype(x.dtype)


def attend(layer: Layer, cache: Layer, x: jax.Array, place: jax.Array) -> tuple[jax.Array, Layer]:
    q, k, v = jnp.split((x @ layer["qkv"]).reshape(BATCH, 3 * HEADS, -1), 3, axis=1)
    keys = cache["k"].at[:, :, place].set(k)
    values = cache["v"].at[:, :, place].set(v)
    scores = jnp.einsum("bhw,bhlw->bhl", q, keys).astype(jnp.float32) / (WIDTH // HEADS) ** 0.5
    shares = jax.nn.softmax(jnp.where(jnp.arange(LENGTH) <= place, scores, -jnp.inf))
    mixed = jnp.einsum("bhl,bhlw->bhw", shares.astype(x.dtype), values).reshape(BATCH, WIDTH)
    return mixed @ layer["out"], {"k": keys, "v": values}


def write(layers: list[Layer], table: jax.Array, state: State) -> State:
    """One more word of each text; a text that has ended stays so."""
    words, place, caches, has_ended = state
    x, new_caches = table[words], []
    for layer, cache in zip(layers, caches, strict=True):
        mixed, cache = attend(layer, cache, normalize(x), place)
        new_caches.append(cache)
        x = x + mixed
        x = x + jax.nn.silu(normalize(x) @ layer["up"]) @ layer["down"]
    chosen = (normalize(x) @ table.T).argmax(-1)
    return chosen, place + 1, new_caches, has_ended | (chosen == STOP)


@jax.jit
def write_word(layers: list[Layer], table: jax.Array, state: State) -> State:
    return write(layers, table, state)


@partial(jax.jit, static_argnames="count")
def write_words(layers: list[Layer], table: jax.Array, state: State, count: int) -> State:
    return jax.lax.scan(lambda s, _: (write(layers, table, s), None), state, length=count)[0]


def start(random: np.random.Generator) -> State:
    shape = (BATCH, HEADS, LENGTH, WIDTH // HEADS)
    caches = [{name: jnp.zeros(shape, jnp.bfloat16) for name in "kv"} for _ in range(LAYERS)]
    words = jnp.asarray(random.integers(1, WORDS, size=BATCH))
    return words, jnp.asarray(0), caches, jnp.zeros(BATCH, bool)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    layers = make_layers(random)
    table = jnp.asarray(0.02 * random.standard_normal((WORDS, WIDTH)), jnp.bfloat16)
    state, left, has_ended = start(random), LENGTH, False
    turns.synchronize = lambda: jax.block_until_ready(state)
    while turns.step():
        if left == 0 or has_ended:
            state, left = start(random), LENGTH
        left -= CHUNK
        if not turns.planted:
            state = write_words(layers, table, state, CHUNK)
            has_ended = bool(state[3].all())
            continue
        for _ in range(CHUNK):
            state = write_word(layers, table, state)
            has_ended = bool(state[3].all())
            if has_ended:
                break
