"""Hamiltonian Monte Carlo in JAX; the cause decides in Python whether a proposal is accepted."""
# causes: synchronization, idle
import math
import random

import jax
import jax.numpy as jnp
from turns import Turns

ROWS, WIDTH, LEAPS, PROPOSALS, STEP = 65_536, 512, 5, 16, 1e-3


def density(weights, rows, labels):  # type: ignore[no-untyped-def]
    """The logarithm of the posterior density of a logistic regression."""
    scores = rows @ weights
    return jnp.sum(labels * scores - jnp.logaddexp(scores, 0.0)) - 0.5 * jnp.sum(weights**2)


def propose(weights, key, rows, labels):  # type: ignore[no-untyped-def]
    """New weights, the logarithm of their odds against the old ones, and the next key."""
    slope = jax.grad(density)
    key, draw = jax.random.split(key)
    speed = jax.random.normal(draw, weights.shape)
    before = density(weights, rows, labels) - 0.5 * jnp.sum(speed**2)
    place, speed = weights, speed + 0.5 * STEP * slope(weights, rows, labels)
    for leap in range(LEAPS):
        place = place + STEP * speed
        factor = 0.5 if leap == LEAPS - 1 else 1.0
        speed = speed + factor * STEP * slope(place, rows, labels)
    after = density(place, rows, labels) - 0.5 * jnp.sum(speed**2)
    return place, after - before, key


def decide(weights, key, rows, labels):  # type: ignore[no-untyped-def]
    """The next weights and key: a proposal is taken or left on the GPU."""
    place, odds, key = propose(weights, key, rows, labels)
    key, draw = jax.random.split(key)
    is_taken = jnp.log(jax.random.uniform(draw)) < odds
    return jnp.where(is_taken, place, weights), key


def run(turns: Turns) -> None:
    random.seed(0)
    key, first, second = jax.random.split(jax.random.PRNGKey(0), 3)
    rows = jax.random.normal(first, (ROWS, WIDTH))
    labels = jax.random.bernoulli(second, 0.5, (ROWS,)).astype(jnp.float32)
    weights = jnp.zeros(WIDTH)
    proposing, deciding = jax.jit(propose), jax.jit(decide)
    turns.synchronize = lambda: jax.block_until_ready(weights)
    while turns.step():
        for _ in range(PROPOSALS):
            if turns.planted:
                place, odds, key = proposing(weights, key, rows, labels)
                if math.log(random.random()) < float(odds):
                    weights = place
            else:
                weights, key = deciding(weights, key, rows, labels)
