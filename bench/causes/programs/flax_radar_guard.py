"""Rain of the next hour by flax; the cause reads each step's loss at once to stop at a NaN.

So the host crops the next batch while the GPU has no work. The fix looks at the loss of the step
before, which is ready when the host comes to it.
"""

# causes: synchronization, idle
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from turns import Turns

SCANS, FIELD, BATCH, TIMES, AHEAD, CROP, WIDTH, LAYERS = 72, 1024, 64, 12, 4, 128, 192, 10


class Forecast(nn.Module):
    """Past scans (batch, rows, columns, times) to the coming ones."""

    @nn.compact
    def __call__(self, past: jax.Array) -> jax.Array:
        x = nn.Conv(WIDTH, (4, 4), strides=(4, 4), dtype=jnp.bfloat16)(past)
        for _ in range(LAYERS):
            y = nn.GroupNorm(8, dtype=jnp.bfloat16)(x)
            y = nn.Conv(2 * WIDTH, (3, 3), dtype=jnp.bfloat16)(nn.silu(y))
            x = x + nn.Conv(WIDTH, (3, 3), dtype=jnp.bfloat16)(nn.silu(y))
        return nn.Conv(16 * AHEAD, (1, 1))(x.astype(jnp.float32))


def crop(scans: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random parts of the scans as bytes, some of them mirrored: (batch, rows, columns, times)."""
    batch = np.empty((BATCH, CROP, CROP, TIMES + AHEAD), np.uint8)
    for part in batch:
        row, column = rng.integers(0, FIELD - CROP, 2)
        time = rng.integers(0, SCANS - TIMES - AHEAD)
        window = scans[row : row + CROP, column : column + CROP, time : time + TIMES + AHEAD]
        part[:] = window[:, ::-1] if rng.random() < 0.5 else window
    return batch


def compute_loss(weights: Any, model: nn.Module, batch: jax.Array) -> jax.Array:
    rain = batch.astype(jnp.float32) / 64
    coming = rain[..., TIMES:].reshape(BATCH, CROP // 4, 4, CROP // 4, 4, AHEAD)
    coming = coming.transpose(0, 1, 3, 2, 4, 5).reshape(BATCH, CROP // 4, CROP // 4, -1)
    return jnp.mean((model.apply(weights, rain[..., :TIMES]) - coming) ** 2)


def check(loss: jax.Array) -> None:
    if not np.isfinite(float(loss)):
        raise FloatingPointError("the loss is not finite")


def run(turns: Turns) -> None:
    rng, model, optimizer = np.random.default_rng(0), Forecast(), optax.adam(1e-4)
    scans = rng.integers(0, 64, (FIELD, FIELD, SCANS), dtype=np.uint8)
    weights = jax.jit(model.init)(jax.random.PRNGKey(0), jnp.zeros((1, CROP, CROP, TIMES)))
    state, before = optimizer.init(weights), jnp.zeros(())

    @jax.jit
    def train(weights: Any, state: Any, batch: jax.Array) -> tuple[Any, Any, jax.Array]:
        find = jax.value_and_grad(lambda each: compute_loss(each, model, batch))
        loss, gradients = find(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, loss

    turns.synchronize = lambda: jax.block_until_ready(before)
    while turns.step():
        weights, state, loss = train(weights, state, jnp.asarray(crop(scans, rng)))
        check(loss if turns.planted else before)
        before = loss
