"""A JAX transformer in fp32; the cause asks for the highest precision of its products."""
# causes: no_tensor_cores
from functools import partial

import jax
import jax.numpy as jnp
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 32, 256, 1024, 16, 3


def normalize(x):  # type: ignore[no-untyped-def]
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def predict(weights, x, precision):  # type: ignore[no-untyped-def]
    multiply = partial(jnp.matmul, precision=precision)
    for qkv, out, up, down in weights:
        parts = multiply(normalize(x), qkv).reshape(BATCH, LENGTH, 3, HEADS, -1)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scores = multiply(q, k.swapaxes(-1, -2)) / (WIDTH // HEADS) ** 0.5
        seen = multiply(jax.nn.softmax(scores), v)
        x = x + multiply(seen.swapaxes(1, 2).reshape(x.shape), out)
        x = x + multiply(jax.nn.gelu(multiply(normalize(x), up)), down)
    return x


@partial(jax.jit, static_argnames="precision")
def train(weights, x, wanted, precision):  # type: ignore[no-untyped-def]
    def loss(weights):  # type: ignore[no-untyped-def]
        return jnp.mean((predict(weights, x, precision) - wanted) ** 2)

    gradients = jax.grad(loss)(weights)
    return jax.tree_util.tree_map(lambda weight, g: weight - 1e-3 * g, weights, gradients)


def run(turns: Turns) -> None:
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 4 * LAYERS + 2))
    shapes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    weights = [
        tuple(0.02 * jax.random.normal(next(keys), shape) for shape in shapes)
        for _ in range(LAYERS)
    ]
    x, wanted = (jax.random.normal(next(keys), (BATCH, LENGTH, WIDTH)) for _ in range(2))
    turns.synchronize = lambda: jax.block_until_ready(weights)
    while turns.step():
        precision = jax.lax.Precision.HIGHEST if turns.planted else jax.lax.Precision.DEFAULT
        weights = train(weights, x, wanted, precision=precision)
