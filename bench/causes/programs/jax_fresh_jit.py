"""A language model in JAX; the cause makes a new jitted function in each evaluation, each 16th step.

The fix has one function, made before the loop.
"""

import os

# A compilation is long enough without a search for the fastest kernels.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")

import jax
import jax.numpy as jnp
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS, PERIOD = 48, 512, 1024, 16, 3, 8192, 16


def normalize(x):  # type: ignore[no-untyped-def]
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def predict(weights, words):  # type: ignore[no-untyped-def]
    """The logits of the next words, in bf16."""
    weights = jax.tree.map(lambda weight: weight.astype(jnp.bfloat16), weights)
    x = weights["embedding"][words]
    for layer in weights["layers"]:
        q, k, v = jnp.split(normalize(x) @ layer["qkv"], 3, -1)
        q, k, v = (each.reshape(*each.shape[:2], HEADS, -1) for each in (q, k, v))
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + seen.reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(normalize(x) @ layer["up"]) @ layer["down"]
    return normalize(x) @ weights["embedding"].T


def find_loss(weights, words):  # type: ignore[no-untyped-def]
    logits = predict(weights, words[:, :-1]).astype(jnp.float32)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), words[:, 1:, None], -1)
    return -chosen.mean()


@jax.jit
def train(weights, words):  # type: ignore[no-untyped-def]
    """The weights after a step of gradient descent, and the loss."""
    loss, slopes = jax.value_and_grad(find_loss)(weights, words)
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), loss


def count_right(weights, words):  # type: ignore[no-untyped-def]
    return (predict(weights, words[:, :-1]).argmax(-1) == words[:, 1:]).mean()


def make_weights(key):  # type: ignore[no-untyped-def]
    shapes = {
        "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
    }  # fmt: skip
    keys = iter(jax.random.split(key, 1 + LAYERS * len(shapes)))
    layers = [
        {name: 0.02 * jax.random.normal(next(keys), shape) for name, shape in shapes.items()}
        for _ in range(LAYERS)
    ]
    return {"embedding": 0.02 * jax.random.normal(next(keys), (WORDS, WIDTH)), "layers": layers}


def run(turns: Turns) -> None:
    turns.period = PERIOD
    weights = make_weights(jax.random.PRNGKey(0))
    words = jax.random.randint(jax.random.PRNGKey(1), (8, BATCH, LENGTH + 1), 0, WORDS)
    turns.synchronize = lambda: jax.block_until_ready(weights)
    made_once, steps, shares = jax.jit(count_right), 0, []
    while turns.step():
        steps += 1
        weights, _ = train(weights, words[steps % 7])
        if steps % PERIOD == 0:
            evaluate = made_once
            if turns.planted:
                evaluate = jax.jit(lambda weights, words: count_right(weights, words))
            shares.append(float(evaluate(weights, words[7])))
