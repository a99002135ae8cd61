"""Moves and winners of board games learned in Flax, as for AlphaZero; the cause adds up gradients outside of jit.

A batch is of eight parts. `jax.tree.map(jnp.add, total, gradients)` after each adds array by array.
The fix adds them in the compiled function that finds them.
"""
# causes: tiny_kernels, host_bound
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from turns import Turns

PARTS, BOARDS, SQUARES, PLANES, MOVES = 8, 56, 64, 112, 1856
WIDTH, HEADS, LAYERS = 512, 8, 6

Tree = Any
Part = tuple[jax.Array, jax.Array, jax.Array]


class Layer(nn.Module):
    """Attention of the squares to each other and an MLP."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS, dtype=jnp.bfloat16)(y, y)
        y = nn.Dense(4 * WIDTH, dtype=jnp.bfloat16)(nn.LayerNorm(dtype=jnp.bfloat16)(x))
        return x + nn.Dense(WIDTH, dtype=jnp.bfloat16)(nn.gelu(y))


class Player(nn.Module):
    """A board to scores of moves and of who wins."""

    @nn.compact
    def __call__(self, boards: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = nn.Dense(WIDTH, dtype=jnp.bfloat16)(boards)
        places = self.param("places", nn.initializers.normal(0.02), (SQUARES, WIDTH))
        x = x + places.astype(jnp.bfloat16)
        for _ in range(LAYERS):
            x = Layer()(x)
        x = nn.LayerNorm()(x)
        moves = nn.Dense(MOVES // SQUARES)(x).reshape(-1, MOVES)
        return moves, nn.Dense(3)(x.mean(1))


def compute_loss(params: Tree, part: Part) -> jax.Array:
    boards, searched, winners = part
    moves, results = Player().apply({"params": params}, boards)
    policy = optax.softmax_cross_entropy(moves, searched)
    value = optax.softmax_cross_entropy_with_integer_labels(results, winners)
    return (policy + value).mean()


find_gradients = jax.jit(jax.grad(compute_loss))


@jax.jit
def add_gradients(total: Tree, params: Tree, part: Part) -> Tree:
    return jax.tree.map(jnp.add, total, jax.grad(compute_loss)(params, part))


@jax.jit
def update(state: TrainState, total: Tree) -> TrainState:
    return state.apply_gradients(grads=jax.tree.map(lambda each: each / PARTS, total))


def draw_part(random: np.random.Generator) -> Part:
    boards = random.integers(2, size=(BOARDS, SQUARES, PLANES)).astype(np.float32)
    searched = random.dirichlet(np.full(MOVES, 0.3), BOARDS).astype(np.float32)
    winners = random.integers(3, size=BOARDS, dtype=np.int32)
    return jnp.asarray(boards), jnp.asarray(searched), jnp.asarray(winners)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    parts = [draw_part(random) for _ in range(PARTS)]
    params = jax.jit(Player().init)(jax.random.key(0), parts[0][0])["params"]
    state = TrainState.create(apply_fn=Player().apply, params=params, tx=optax.adamw(1e-4))
    nothing = jax.tree.map(jnp.zeros_like, params)
    turns.synchronize = lambda: jax.block_until_ready(state.params)
    while turns.step():
        total = nothing
        for part in parts:
            if turns.planted:
                total = jax.tree.map(jnp.add, total, find_gradients(state.params, part))
            else:
                total = add_gradients(total, state.params, part)
        state = update(state, total)
