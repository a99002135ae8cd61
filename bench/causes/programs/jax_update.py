"""A JAX convolutional network; the cause updates its weights outside of jit, array by array."""
# causes: tiny_kernels, host_bound
import jax
import jax.numpy as jnp
from turns import Turns

BATCH, SIZE, WIDTH, LAYERS = 48, 56, 128, 24


def loss(weights, images):  # type: ignore[no-untyped-def]
    x = images
    for kernel, scale, shift in weights:
        y = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = x + jax.nn.relu(y * scale + shift)
    return jnp.mean(x.astype(jnp.float32) ** 2)


def update(weights, means, squares, gradients):  # type: ignore[no-untyped-def]
    """Adam."""
    mapped = jax.tree_util.tree_map
    means = mapped(lambda mean, g: 0.9 * mean + 0.1 * g, means, gradients)
    squares = mapped(lambda square, g: 0.99 * square + 0.01 * g * g, squares, gradients)
    weights = mapped(
        lambda w, mean, square: w - 1e-4 * mean / (jnp.sqrt(square) + 1e-6), weights, means, squares
    )
    return weights, means, squares


def run(turns: Turns) -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), LAYERS)
    weights = [
        (
            0.02 * jax.random.normal(key, (3, 3, WIDTH, WIDTH), jnp.bfloat16),
            jnp.ones(WIDTH, jnp.bfloat16),
            jnp.zeros(WIDTH, jnp.bfloat16),
        )
        for key in keys
    ]
    means = jax.tree_util.tree_map(jnp.zeros_like, weights)
    state = (weights, means, means)
    images = jax.random.normal(keys[0], (BATCH, SIZE, SIZE, WIDTH), jnp.bfloat16)
    differentiate, compiled = jax.jit(jax.grad(loss)), jax.jit(update)
    turns.synchronize = lambda: jax.block_until_ready(state)
    while turns.step():
        gradients = differentiate(state[0], images)
        state = (update if turns.planted else compiled)(*state, gradients)
