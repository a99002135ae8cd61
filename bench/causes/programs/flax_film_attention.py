"""Scenes of films told in clips by a video transformer in Flax; the cause is the attention that Flax's layer has by default.

It writes what each tube of a clip thinks of each other one. The fix gives the layer another
`attention_fn`: `jax.nn.dot_product_attention` with cuDNN's implementation.
"""
# causes: unfused_attention
from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from turns import Turns

BATCH, FRAMES, SIZE, CLASSES, STORED = 6, 16, 256, 30, 4
TUBE, PATCH, WIDTH, HEADS, LAYERS = 2, 16, 768, 12, 5
GRID = (FRAMES // TUBE, SIZE // PATCH, SIZE // PATCH)
TOKENS = GRID[0] * GRID[1] * GRID[2]


def attend_fused(query: jax.Array, key: jax.Array, value: jax.Array, **_: Any) -> jax.Array:
    return jax.nn.dot_product_attention(query, key, value, implementation="cudnn")


class Layer(nn.Module):
    """Attention and an MLP."""

    attention_fn: Callable[..., jax.Array]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
        x = x + nn.MultiHeadDotProductAttention(
            num_heads=HEADS, dtype=jnp.bfloat16, attention_fn=self.attention_fn
        )(y, y)
        y = nn.Dense(4 * WIDTH, dtype=jnp.bfloat16)(nn.LayerNorm(dtype=jnp.bfloat16)(x))
        return x + nn.Dense(WIDTH, dtype=jnp.bfloat16)(nn.gelu(y))


class Film(nn.Module):
    """Tubes of a clip to the scores of its scene."""

    attention_fn: Callable[..., jax.Array]

    @nn.compact
    def __call__(self, clips: jax.Array) -> jax.Array:
        times, rows, columns = GRID
        x = clips.reshape(-1, times, TUBE, rows, PATCH, columns, PATCH, 3)
        x = x.transpose(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, TOKENS, TUBE * PATCH * PATCH * 3)
        x = nn.Dense(WIDTH, dtype=jnp.bfloat16)(x.astype(jnp.bfloat16) / 127.5 - 1)
        places = self.param("places", nn.initializers.normal(0.02), (TOKENS, WIDTH))
        x = x + places.astype(jnp.bfloat16)
        for number in range(LAYERS):
            x = Layer(self.attention_fn, name=f"layer{number}")(x)
        x = nn.LayerNorm()(x).mean(1)
        return nn.Dense(CLASSES)(x)


@partial(jax.jit, donate_argnums=0, static_argnames="model")
def train_step(state: TrainState, clips: jax.Array, scenes: jax.Array, model: Film) -> TrainState:
    def loss_fn(params: Any) -> jax.Array:
        scores = model.apply({"params": params}, clips)
        return optax.softmax_cross_entropy_with_integer_labels(scores, scenes).mean()

    return state.apply_gradients(grads=jax.grad(loss_fn)(state.params))


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    shape = (BATCH, FRAMES, SIZE, SIZE, 3)
    clips = [
        jnp.asarray(random.integers(256, size=shape, dtype=np.uint8)) for _ in range(STORED)
    ]
    scenes = jnp.asarray(random.integers(CLASSES, size=BATCH))
    plain, fused = Film(nn.dot_product_attention), Film(attend_fused)
    params = jax.jit(plain.init)(jax.random.key(0), clips[0][:1])["params"]
    state = TrainState.create(apply_fn=plain.apply, params=params, tx=optax.adamw(1e-4))
    turns.synchronize = lambda: jax.block_until_ready(state.params)
    steps = 0
    while turns.step():
        model = plain if turns.planted else fused
        state = train_step(state, clips[steps % STORED], scenes, model=model)
        steps += 1
