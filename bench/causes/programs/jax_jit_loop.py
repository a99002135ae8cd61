"""An MLP that classifies in JAX and optax; the cause makes the function that validates it anew each eighth step.

`jax.jit` of a new lambda compiles again. The fix compiles one function before the loop.
"""
# causes: compile
from typing import Any

import jax
import jax.numpy as jnp
import optax
from turns import Turns

BATCH, WIDTH, LAYERS, CLASSES, PERIOD = 32_768, 2048, 8, 1000, 8

Weights = list[jax.Array]


def score(weights: Weights, rows: jax.Array) -> jax.Array:
    """The scores of the classes."""
    for weight in weights[:-1]:
        rows = rows + jax.nn.gelu(rows @ weight.astype(rows.dtype))
    return (rows @ weights[-1].astype(rows.dtype)).astype(jnp.float32)


def compute_loss(weights: Weights, rows: jax.Array, labels: jax.Array) -> jax.Array:
    scores = score(weights, rows)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def count_hits(weights: Weights, rows: jax.Array, labels: jax.Array) -> jax.Array:
    return (score(weights, rows).argmax(1) == labels).mean()


def run(turns: Turns) -> None:
    turns.period = PERIOD
    keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 2)
    shapes = [(WIDTH, WIDTH)] * (LAYERS - 1) + [(WIDTH, CLASSES)]
    weights = [
        jax.random.normal(key, shape) * 0.5 / WIDTH**0.5
        for key, shape in zip(keys[2:], shapes, strict=True)
    ]
    rows = jax.random.normal(keys[0], (BATCH, WIDTH), jnp.bfloat16)
    labels = jax.random.randint(keys[1], (BATCH,), 0, CLASSES)
    optimizer = optax.adamw(1e-4)
    state = optimizer.init(weights)

    @jax.jit
    def train(weights: Weights, state: Any) -> tuple[Weights, Any, jax.Array]:  # noqa: ANN401
        loss, slopes = jax.value_and_grad(compute_loss)(weights, rows, labels)
        updates, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    validate = jax.jit(count_hits)
    turns.synchronize = lambda: jax.block_until_ready(weights)
    steps = 0
    while turns.step():
        weights, state, _ = train(weights, state)
        steps += 1
        if steps % PERIOD == 0 and turns.planted:
            jax.jit(lambda weights, rows, labels: count_hits(weights, rows, labels))(weights, rows, labels)
        elif steps % PERIOD == 0:
            validate(weights, rows, labels)
