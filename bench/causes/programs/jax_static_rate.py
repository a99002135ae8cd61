"""A JAX network trained by momentum; the cause makes the learning rate a static argument of jit.

The rate becomes smaller in each eighth step.
"""
# causes: compile
import os

# A compilation is long enough without a search for the fastest kernels. Triton's products are slow
# without that search: a step of 104 ms on an H100, behind which the host compiles unseen.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false")

import jax
import jax.numpy as jnp
from turns import Turns

BATCH, INPUTS, WIDTH, LAYERS, PERIOD = 8192, 1024, 2048, 8, 8


def predict(weights, x):  # type: ignore[no-untyped-def]
    first, *hidden, last = weights
    x = jax.nn.silu(x @ first)
    for weight in hidden:
        x = x + jax.nn.silu(x @ weight)
    return x @ last


def train(weights, speeds, x, labels, rate):  # type: ignore[no-untyped-def]
    def loss(weights):  # type: ignore[no-untyped-def]
        logits = jax.nn.log_softmax(predict(weights, x).astype(jnp.float32))
        return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

    gradients = jax.grad(loss)(weights)
    mapped = jax.tree_util.tree_map
    speeds = mapped(lambda speed, g: 0.9 * speed + g, speeds, gradients)
    weights = mapped(lambda weight, speed: weight - rate * speed, weights, speeds)
    return weights, speeds


def run(turns: Turns) -> None:
    turns.period = PERIOD
    keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 2)
    shapes = [(INPUTS, WIDTH), *[(WIDTH, WIDTH)] * LAYERS, (WIDTH, 128)]
    weights = [
        0.02 * jax.random.normal(key, shape, jnp.bfloat16)
        for key, shape in zip(keys, shapes, strict=True)
    ]
    state = (weights, [jnp.zeros_like(weight) for weight in weights])
    x = jax.random.normal(keys[0], (BATCH, INPUTS), jnp.bfloat16)
    labels = jax.random.randint(keys[1], (BATCH,), 0, 128)
    by_value, by_array = jax.jit(train, static_argnames="rate"), jax.jit(train)
    turns.synchronize = lambda: jax.block_until_ready(state)
    steps = 0
    while turns.step():
        steps += 1
        rate = 0.01 * 0.99 ** (steps // PERIOD)
        if turns.planted:
            state = by_value(*state, x, labels, rate=rate)
        else:
            state = by_array(*state, x, labels, jnp.asarray(rate, jnp.bfloat16))
