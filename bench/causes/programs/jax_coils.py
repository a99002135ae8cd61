"""Pictures of a magnetic resonance scanner with few samples (FISTA) in JAX; the cause reads each round's change.

It makes a Python number of how far the picture has moved, for a curve. The fix leaves these
numbers on the GPU and reads them after the last round.
"""
# causes: synchronization, idle
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

COILS, SIDE, ROUNDS, SLICES, LIMIT = 8, 640, 150, 4, 2e-3


def shrink(picture, limit):  # type: ignore[no-untyped-def]
    """Values moved towards zero: most of a picture of vessels is dark."""
    size = jnp.abs(picture)
    return picture * (jnp.maximum(size - limit, 0) / jnp.maximum(size, 1e-9))


@jax.jit
def improve(picture, ahead, time, seen, coils, mask):  # type: ignore[no-untyped-def]
    """A round: the picture, the point of the next round, its time, and how far the picture moved."""
    error = mask * jnp.fft.fft2(coils * ahead, norm="ortho") - seen
    slope = (coils.conj() * jnp.fft.ifft2(mask * error, norm="ortho")).sum(0)
    better = shrink(ahead - slope, LIMIT)
    later = (1 + jnp.sqrt(1 + 4 * time**2)) / 2
    moved = better - picture
    change = jnp.sqrt((jnp.abs(moved) ** 2).sum() / ((jnp.abs(better) ** 2).sum() + 1e-9))
    return better, better + (time - 1) / later * moved, later, change


def make_coils() -> np.ndarray:
    """How well each coil hears each place."""
    places = np.linspace(-1, 1, SIDE)
    angles = 2 * np.pi * np.arange(COILS) / COILS
    across = places[None, None] - np.cos(angles)[:, None, None]
    along = places[None, :, None] - np.sin(angles)[:, None, None]
    coils = np.exp(-(across**2 + along**2) + 1j * (across + along))
    return (coils / np.sqrt((np.abs(coils) ** 2).sum(0))).astype(np.complex64)


def make_slices(random: np.random.Generator, coils: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """What the coils hear of slices with some bright vessels."""
    slices = random.random((SLICES, 1, SIDE, SIDE)) ** 40
    heard = np.fft.fft2(coils * slices, norm="ortho") * mask
    return heard.astype(np.complex64)


def run(turns: Turns) -> None:
    random, coils = np.random.default_rng(0), make_coils()
    mask = (random.random((SIDE, SIDE)) < 0.3).astype(np.float32)
    slices = [jnp.asarray(seen) for seen in make_slices(random, coils, mask)]
    coils, mask = jnp.asarray(coils), jnp.asarray(mask)
    dark = picture = jnp.zeros((SIDE, SIDE), jnp.complex64)
    begin, curves = jnp.ones(()), []
    turns.synchronize = lambda: jax.block_until_ready(picture)
    while turns.step():
        seen, changes = slices[len(curves) % SLICES], []
        picture, ahead, time = dark, dark, begin
        for _ in range(ROUNDS):
            picture, ahead, time, change = improve(picture, ahead, time, seen, coils, mask)
            changes.append(float(change) if turns.planted else change)
        curves.append(jax.device_get(changes))
