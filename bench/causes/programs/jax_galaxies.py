"""Shapes of galaxies in pictures of a survey told by a network in JAX; the cause scales pictures by NumPy.

It makes fp32 of their bytes before they are copied. The fix copies the bytes, and scales them in
the compiled function.
"""
# causes: idle, pageable_copy
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

PICTURES, SIZE, WIDTH, LAYERS, SHAPES, BATCHES = 64, 224, 256, 16, 34, 6
MEAN = np.array([0.167, 0.163, 0.159], np.float32)
SPREAD = np.array([0.130, 0.118, 0.110], np.float32)


def convolve(x, kernel, stride=1):  # type: ignore[no-untyped-def]
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def apply_blocks(x, kernels):  # type: ignore[no-untyped-def]
    def apply_one(x, kernel):  # type: ignore[no-untyped-def]
        return x + convolve(jax.nn.silu(x), kernel), None

    return jax.lax.scan(apply_one, x, kernels)[0]


@jax.jit
def tell(weights, pictures):  # type: ignore[no-untyped-def]
    """How sure the network is of each shape."""
    if pictures.dtype == jnp.uint8:
        pictures = (pictures.astype(jnp.float32) / 255 - MEAN) / SPREAD
    x = convolve(pictures.astype(jnp.bfloat16), weights["first"], 4)
    x = convolve(apply_blocks(x, weights["large"]), weights["between"], 2)
    x = apply_blocks(x, weights["small"]).mean((1, 2)).astype(jnp.float32)
    return jax.nn.softmax(x @ weights["head"])


def make_weights(key):  # type: ignore[no-untyped-def]
    def make(key, *shape):  # type: ignore[no-untyped-def]
        return 0.01 * jax.random.normal(key, shape, jnp.bfloat16)

    keys = jax.random.split(key, 5)
    return {
        "first": make(keys[0], 4, 4, 3, WIDTH),
        "large": make(keys[1], LAYERS, 3, 3, WIDTH, WIDTH),
        "between": make(keys[2], 2, 2, WIDTH, 2 * WIDTH),
        "small": make(keys[3], LAYERS, 3, 3, 2 * WIDTH, 2 * WIDTH),
        "head": jax.random.normal(keys[4], (2 * WIDTH, SHAPES)),
    }


def scale(pictures: np.ndarray) -> np.ndarray:
    return (pictures.astype(np.float32) / 255 - MEAN) / SPREAD


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    survey = random.integers(0, 256, (BATCHES, PICTURES, SIZE, SIZE, 3), np.uint8)
    weights = make_weights(jax.random.PRNGKey(0))
    catalogue: list[np.ndarray] = []
    while turns.step():
        pictures = survey[len(catalogue) % BATCHES]
        sureness = tell(weights, scale(pictures) if turns.planted else pictures)
        catalogue.append(np.asarray(sureness).argmax(1))
