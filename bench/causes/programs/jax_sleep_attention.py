"""Nights of sleep scored by a flax encoder; the cause computes attention by products and softmax.

The fix calls jax.nn.dot_product_attention with cuDNN's kernel, which stores no scores.
"""

# causes: unfused_attention
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from turns import Turns

BATCH, LENGTH, CHANNELS, WIDTH, HEADS, LAYERS, STAGES = 6, 2048, 64, 768, 12, 4, 5


def attend_by_hand(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    shares = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, v)


def attend_fused(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, implementation="cudnn")


class Encoder(nn.Module):
    """Windows of a night (batch, length, channels) to the scores of sleep stages."""

    fused: bool

    @nn.compact
    def __call__(self, night: jax.Array) -> jax.Array:
        attend = attend_fused if self.fused else attend_by_hand
        x = nn.Dense(WIDTH, dtype=jnp.bfloat16)(night)
        for _ in range(LAYERS):
            y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
            shape = (3, HEADS, WIDTH // HEADS)
            qkv = nn.DenseGeneral(shape, dtype=jnp.bfloat16)(y)
            y = attend(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
            x = x + nn.DenseGeneral(WIDTH, axis=(-2, -1), dtype=jnp.bfloat16)(y)
            y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
            y = nn.gelu(nn.Dense(4 * WIDTH, dtype=jnp.bfloat16)(y))
            x = x + nn.Dense(WIDTH, dtype=jnp.bfloat16)(y)
        return nn.Dense(STAGES)(x.astype(jnp.float32))


def make_train(encoder: Encoder, optimizer: optax.GradientTransformation) -> Any:
    def compute_loss(weights: Any, night: jax.Array, stages: jax.Array) -> jax.Array:
        scores = encoder.apply(weights, night)
        return optax.softmax_cross_entropy_with_integer_labels(scores, stages).mean()

    @jax.jit
    def train(weights: Any, state: Any, night: jax.Array, stages: jax.Array) -> Any:
        gradients = jax.grad(compute_loss)(weights, night, stages)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    return train


def run(turns: Turns) -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    night = jax.random.normal(keys[0], (BATCH, LENGTH, CHANNELS))
    stages = jax.random.randint(keys[1], (BATCH, LENGTH), 0, STAGES)
    optimizer = optax.adamw(1e-4)
    by_hand, fused = Encoder(fused=False), Encoder(fused=True)
    weights = jax.jit(by_hand.init)(keys[2], night)
    state = optimizer.init(weights)
    slow, fast = (make_train(encoder, optimizer) for encoder in (by_hand, fused))
    turns.synchronize = lambda: jax.block_until_ready((weights, state))
    while turns.step():
        train = slow if turns.planted else fast
        weights, state = train(weights, state, night, stages)
