"""Particles of a cryo-electron microscope compared with views of a model in JAX; the cause is `jax.lax.map`.

It takes the lens's faults off the pictures one by one. The fix is `jax.vmap`. All views come after
that, many at once in both.
"""
# causes: tiny_kernels, host_bound
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from turns import Turns

PICTURES, SIDE, PARTS, VIEWS, BATCHES = 512, 128, 16, 1024, 3

frequencies = np.fft.fftfreq(SIDE).astype(np.float32)
squares = frequencies[:, None] ** 2 + frequencies[None] ** 2
places = np.arange(SIDE, dtype=np.float32) - SIDE / 2
disc = (np.hypot(places[:, None], places[None]) < SIDE / 2).astype(np.float32)


def clean(picture, focus):  # type: ignore[no-untyped-def]
    """The Hartley transform of a picture, corrected for its focus and scaled."""
    picture = disc * (picture - picture.mean())
    transfer = jnp.sin(focus * squares) * jnp.exp(-4 * squares)
    spectrum = jnp.fft.fft2(picture) * transfer / (transfer**2 + 0.1)
    wave = jnp.fft.fftshift(spectrum.real - spectrum.imag)
    return wave / (wave.std() + 1e-6)


def view(model, turn):  # type: ignore[no-untyped-def]
    """The plane through the model's transform that a turn gives."""
    plane = [
        places[:, None] * turn[0, axis] + places[None] * turn[1, axis] + SIDE / 2
        for axis in range(3)
    ]
    return map_coordinates(model, plane, order=1, mode="nearest").ravel()


@functools.partial(jax.jit, static_argnames="in_turn")
def match(model, ways, pictures, focuses, in_turn):  # type: ignore[no-untyped-def]
    """How alike each picture and its best view are."""
    if in_turn:
        waves = jax.lax.map(lambda pair: clean(*pair), (pictures, focuses))
    else:
        waves = jax.vmap(clean)(pictures, focuses)
    waves = waves.reshape(PICTURES, -1)

    def compare(some):  # type: ignore[no-untyped-def]
        views = jax.vmap(view, (None, 0))(model, some)
        return (waves @ views.T).max(1)

    return jax.lax.map(compare, ways).max(0)


def draw_turns(random: np.random.Generator) -> np.ndarray:
    turns, _ = np.linalg.qr(random.standard_normal((PARTS, VIEWS, 3, 3)))
    return turns.astype(np.float32)


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    shape = (BATCHES, PICTURES, SIDE, SIDE)
    pictures = [jnp.asarray(batch) for batch in random.standard_normal(shape, np.float32)]
    focuses = jnp.asarray(random.uniform(100, 300, PICTURES), jnp.float32)
    model = jnp.asarray(random.standard_normal((SIDE,) * 3, np.float32))
    ways = jnp.asarray(draw_turns(random))
    found: list[np.ndarray] = []
    while turns.step():
        batch = pictures[len(found) % BATCHES]
        found.append(np.asarray(match(model, ways, batch, focuses, in_turn=turns.planted)))
