"""A network in JAX; the cause makes the learning rate of each eighth step a constant of its code."""
# causes: compile
from functools import partial

import jax
import jax.numpy as jnp
from turns import Turns

BATCH, WIDTH, LAYERS, PERIOD = 16384, 2048, 4, 8


def loss_of(weights, rows, wanted):  # type: ignore[no-untyped-def]
    """The mean square error of the network."""
    for weight in weights[:-1]:
        rows = jax.nn.gelu(rows @ weight)
    return jnp.mean((rows @ weights[-1] - wanted) ** 2)


def train(weights, speeds, rows, wanted, rate):  # type: ignore[no-untyped-def]
    """Weights and their speeds after a step of gradient descent with momentum."""
    slopes = jax.grad(loss_of)(weights, rows, wanted)
    speeds = [0.9 * speed + slope for speed, slope in zip(speeds, slopes, strict=True)]
    weights = [weight - rate * speed for weight, speed in zip(weights, speeds, strict=True)]
    return weights, speeds


def run(turns: Turns) -> None:
    turns.period = PERIOD
    keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 2)
    shape, kind = (WIDTH, WIDTH), jnp.bfloat16
    weights = [jax.random.normal(key, shape, kind) / WIDTH**0.5 for key in keys[:LAYERS]]
    speeds = [jnp.zeros(shape, kind) for _ in weights]
    rows, wanted = (jax.random.normal(key, (BATCH, WIDTH), kind) for key in keys[LAYERS:])
    constant = partial(jax.jit, static_argnames="rate")(train)
    traced = jax.jit(train)
    turns.synchronize = lambda: jax.block_until_ready(weights)
    rate, steps = 1e-3, 0
    while turns.step():
        steps += 1
        if steps % PERIOD == 0:
            rate *= 0.99
        if turns.planted:
            weights, speeds = constant(weights, speeds, rows, wanted, rate=rate)
        else:
            weights, speeds = traced(weights, speeds, rows, wanted, jnp.asarray(rate, kind))
