"""Heights of waves at buoys by a gated recurrence in flax; the cause runs it by lax.scan.

Each of the times is a round of small kernels. The recurrence is linear in its state, so the fix
runs it by lax.associative_scan.
"""

# causes: tiny_kernels, host_bound
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from turns import Turns

BUOYS, LENGTH, FEATURES, WIDTH, LAYERS = 48, 512, 16, 640, 3


def recur_in_turn(keep: jax.Array, new: jax.Array) -> jax.Array:
    """The states h[t] = keep[t] h[t - 1] + new[t] of arrays (batch, times, width)."""

    def advance(state: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        state = now[0] * state + now[1]
        return state, state

    by_time = (keep.swapaxes(0, 1), new.swapaxes(0, 1))
    _, states = jax.lax.scan(advance, jnp.zeros_like(new[:, 0]), by_time)
    return states.swapaxes(0, 1)


def recur_at_once(keep: jax.Array, new: jax.Array) -> jax.Array:
    """As recur_in_turn."""

    def join(first: Any, second: Any) -> tuple[jax.Array, jax.Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return jax.lax.associative_scan(join, (keep, new), axis=1)[1]


class Recurrence(nn.Module):
    """Measured values (batch, times, features) to the height of the next waves."""

    at_once: bool

    @nn.compact
    def __call__(self, values: jax.Array) -> jax.Array:
        recur = recur_at_once if self.at_once else recur_in_turn
        x = nn.Dense(WIDTH)(values)
        for _ in range(LAYERS):
            y = nn.LayerNorm()(x)
            keep = nn.sigmoid(nn.Dense(WIDTH)(y) + 2)
            states = recur(keep, (1 - keep) * nn.Dense(WIDTH)(y))
            x = x + nn.Dense(WIDTH)(states * nn.silu(nn.Dense(WIDTH)(y)))
            y = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x)))
            x = x + nn.Dense(WIDTH)(y)
        return nn.Dense(1)(x)[..., 0]


def make_train(model: Recurrence, optimizer: optax.GradientTransformation) -> Any:
    def compute_loss(weights: Any, values: jax.Array, heights: jax.Array) -> jax.Array:
        return jnp.mean((model.apply(weights, values) - heights) ** 2)

    @jax.jit
    def train(weights: Any, state: Any, values: jax.Array, heights: jax.Array) -> Any:
        gradients = jax.grad(compute_loss)(weights, values, heights)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    return train


def run(turns: Turns) -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    values = jax.random.normal(keys[0], (BUOYS, LENGTH, FEATURES))
    heights = jax.random.normal(keys[1], (BUOYS, LENGTH))
    optimizer = optax.adamw(1e-4)
    in_turn, at_once = Recurrence(at_once=False), Recurrence(at_once=True)
    weights = jax.jit(at_once.init)(keys[2], values)
    state = optimizer.init(weights)
    slow, fast = (make_train(model, optimizer) for model in (in_turn, at_once))
    turns.synchronize = lambda: jax.block_until_ready((weights, state))
    while turns.step():
        train = slow if turns.planted else fast
        weights, state = train(weights, state, values, heights)
