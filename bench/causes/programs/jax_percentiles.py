"""Cells found in frames of a microscope in JAX; the cause scales frames by NumPy between two networks, the fix by JAX."""
# causes: idle, pageable_copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

FRAMES, SIZE, WIDTH, LAYERS, LOW, HIGH = 12, 256, 128, 12, 1.0, 99.8


def convolve(x, kernel):  # type: ignore[no-untyped-def]
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@jax.jit
def apply_network(weights, frames):  # type: ignore[no-untyped-def]
    """Frames of shape (FRAMES, SIZE, SIZE) to one value for each of their points."""
    x = convolve(frames[..., None].astype(jnp.bfloat16), weights["first"])
    x, _ = jax.lax.scan(
        lambda x, kernel: (x + jax.nn.relu(convolve(x, kernel)), None), x, weights["layers"]
    )
    return convolve(x, weights["last"])[..., 0].astype(jnp.float32)


def scale(frames, library):  # type: ignore[no-untyped-def]
    """Each frame from 0 to 1, its darkest and brightest points cut."""
    low, high = library.percentile(frames, np.array([LOW, HIGH]), axis=(1, 2), keepdims=True)
    return library.clip((frames - low) / (high - low + 1e-6), 0, 1)


@jax.jit
def find_cells(scores):  # type: ignore[no-untyped-def]
    """The number of points of each frame that are the highest within 5 by 5."""
    around = jax.lax.reduce_window(scores, -jnp.inf, jax.lax.max, (1, 5, 5), (1, 1, 1), "SAME")
    return (scores == around).sum((1, 2))


def make_weights(key):  # type: ignore[no-untyped-def]
    def make(key, *shape):  # type: ignore[no-untyped-def]
        return 0.02 * jax.random.normal(key, shape, jnp.bfloat16)

    first, middle, last = jax.random.split(key, 3)
    return {
        "first": make(first, 5, 5, 1, WIDTH),
        "layers": make(middle, LAYERS, 3, 3, WIDTH, WIDTH),
        "last": make(last, 3, 3, WIDTH, 1),
    }


def run(turns: Turns) -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    denoiser, detector = make_weights(keys[0]), make_weights(keys[1])
    camera = jax.random.uniform(keys[2], (8, FRAMES, SIZE, SIZE))
    scale_on_gpu = jax.jit(functools.partial(scale, library=jnp))
    counts = []
    while turns.step():
        clean = apply_network(denoiser, camera[len(counts) % len(camera)])
        if turns.planted:
            scaled = scale(np.asarray(clean), np).astype(np.float32)
        else:
            scaled = scale_on_gpu(clean)
        counts.append(np.asarray(find_cells(apply_network(detector, scaled))))
