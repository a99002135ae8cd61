"""Turbulence in two dimensions by Fourier transforms in JAX; the cause finds its spectrum by NumPy in each step.

It brings all coefficients to the host for that. The fix adds them up on the GPU, and brings the
spectrum.
"""
# causes: idle, pageable_copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

SIDE, MOVES = 2048, 20
TIME_STEP, VISCOSITY = 2e-4, 1e-5
SHELLS = SIDE // 2

rows = np.fft.fftfreq(SIDE, 1 / SIDE).astype(np.float32)[:, None]
columns = np.fft.rfftfreq(SIDE, 1 / SIDE).astype(np.float32)[None, :]


def make_constants():
    """Squares of wave numbers, and which of them are kept (two thirds)."""
    squares = rows**2 + columns**2
    kept = (np.abs(rows) < SIDE / 3) & (columns < SIDE / 3)
    return jnp.asarray(squares), jnp.asarray(kept.astype(np.float32))


def change(vorticity, squares, kept):
    """How the vorticity's coefficients change."""
    stream = vorticity / jnp.maximum(squares, 1.0)

    def transform_back(coefficients):
        return jnp.fft.irfft2(coefficients, s=(SIDE, SIDE))

    along = transform_back(1j * rows * stream)
    across = transform_back(-1j * columns * stream)
    by_column = transform_back(1j * columns * vorticity)
    by_row = transform_back(1j * rows * vorticity)
    carried = jnp.fft.rfft2(along * by_column + across * by_row)
    return -kept * carried - VISCOSITY * squares * vorticity


@functools.partial(jax.jit, donate_argnums=0)
def simulate(vorticity, squares, kept):
    """Some time steps of Heun's method."""

    def move(_, vorticity):
        first = change(vorticity, squares, kept)
        second = change(vorticity + TIME_STEP * first, squares, kept)
        return vorticity + 0.5 * TIME_STEP * (first + second)

    return jax.lax.fori_loop(0, MOVES, move, vorticity)


def find_spectrum_with_numpy(vorticity, shells):
    coefficients = np.asarray(vorticity)
    enstrophy = coefficients.real**2 + coefficients.imag**2
    return np.bincount(shells, weights=enstrophy.ravel(), minlength=SHELLS)


@jax.jit
def find_spectrum_with_jax(vorticity, shells):
    enstrophy = vorticity.real**2 + vorticity.imag**2
    return jnp.zeros(SHELLS, jnp.float32).at[shells].add(enstrophy.ravel())


def run(turns: Turns) -> None:
    squares, kept = make_constants()
    shells = np.minimum(np.sqrt(rows**2 + columns**2).astype(np.int32), SHELLS - 1).ravel()
    shells_on_gpu = jnp.asarray(shells)
    noise = jax.random.normal(jax.random.PRNGKey(0), (SIDE, SIDE))
    damping = jnp.exp(-squares / 60.0**2)
    vorticity = jnp.fft.rfft2(noise) * damping
    vorticity = (vorticity * (SIDE / jnp.sqrt((jnp.abs(vorticity) ** 2).mean()))).astype(jnp.complex64)
    turns.synchronize = lambda: jax.block_until_ready(vorticity)
    spectra = []
    while turns.step():
        vorticity = simulate(vorticity, squares, kept)
        if turns.planted:
            spectra.append(find_spectrum_with_numpy(vorticity, shells))
        else:
            spectra.append(np.asarray(find_spectrum_with_jax(vorticity, shells_on_gpu)))
