"""An MLP-Mixer in flax; the cause keeps the mean of its weights array by array, outside of jit.

The fix does so in one compiled function.
"""
# causes: tiny_kernels, host_bound
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from turns import Turns

BATCH, PATCHES, PIXELS, WIDTH, TOKENS, LAYERS = 32, 196, 768, 384, 192, 10
CLASSES, KEPT = 100, 0.999

Tree = Any


class Mlp(nn.Module):
    """Two dense layers."""

    inner: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.gelu(nn.Dense(self.inner, dtype=jnp.bfloat16)(x))
        return nn.Dense(x.shape[-1], dtype=jnp.bfloat16)(y)


class Mixer(nn.Module):
    """Layers that mix patches, then channels."""

    @nn.compact
    def __call__(self, patches: jax.Array) -> jax.Array:
        x = nn.Dense(WIDTH, dtype=jnp.bfloat16)(patches)
        for _ in range(LAYERS):
            y = nn.LayerNorm(dtype=jnp.bfloat16)(x).swapaxes(1, 2)
            x = x + Mlp(TOKENS)(y).swapaxes(1, 2)
            x = x + Mlp(4 * WIDTH)(nn.LayerNorm(dtype=jnp.bfloat16)(x))
        return nn.Dense(CLASSES)(nn.LayerNorm()(x).mean(1))


def mix(mean: Tree, weights: Tree) -> Tree:
    """The moving mean of the weights."""
    return jax.tree.map(lambda old, new: KEPT * old + (1 - KEPT) * new, mean, weights)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    patches = jnp.asarray(random.standard_normal((BATCH, PATCHES, PIXELS), np.float32))
    labels = jnp.asarray(random.integers(CLASSES, size=BATCH))
    model, optimizer = Mixer(), optax.adamw(1e-3)
    weights = jax.jit(model.init)(jax.random.PRNGKey(0), patches)
    state = optimizer.init(weights)
    mean = jax.tree.map(jnp.copy, weights)

    def compute_loss(weights: Tree, patches: jax.Array) -> jax.Array:
        logits = model.apply(weights, patches)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @jax.jit
    def train(weights: Tree, state: Tree, patches: jax.Array) -> tuple[Tree, Tree, jax.Array]:
        loss, gradients = jax.value_and_grad(compute_loss)(weights, patches)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    mix_at_once = jax.jit(mix)
    turns.synchronize = lambda: jax.block_until_ready((mean, weights))
    while turns.step():
        weights, state, _ = train(weights, state, patches)
        mean = mix(mean, weights) if turns.planted else mix_at_once(mean, weights)
