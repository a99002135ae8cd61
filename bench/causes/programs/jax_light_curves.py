"""Planets of stars sought in JAX; the cause takes the trend off each star's light by a call of its own.

The fix is `jax.vmap`. The search for periods, which comes next, takes all stars at once in both.
"""
# causes: tiny_kernels, host_bound
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

STARS, TIMES, FREQUENCIES = 40, 1024, 16_384
ROUNDS, WIDTH = 4, 0.02


def remove_trend(times, flux):
    """A star's light without its slow changes: smoothed again and again without outliers."""
    kernel = jnp.exp(-0.5 * ((times[:, None] - times) / WIDTH) ** 2)
    weights = jnp.ones_like(flux)
    residuals = flux
    for _ in range(ROUNDS):
        trend = (kernel @ (weights * flux)) / (kernel @ weights + 1e-6)
        residuals = flux - trend
        spread = jnp.sqrt(jnp.mean(weights * residuals**2))
        weights = jnp.where(jnp.abs(residuals) < 4 * spread, 1.0, 0.0)
    return residuals


@jax.jit
def best_frequencies(times, residuals, frequencies):
    """The strongest frequency of each star by Lomb and Scargle."""

    def search(star):
        time, light = star
        phase = 2 * jnp.pi * frequencies[:, None] * time
        sine, cosine = jnp.sin(phase), jnp.cos(phase)
        power = (cosine @ light) ** 2 / (cosine**2).sum(1) + (sine @ light) ** 2 / (sine**2).sum(1)
        return frequencies[power.argmax()]

    return jax.lax.map(search, (times, residuals))


def make_night(seed):
    """The light of all stars; one in three has a planet."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.random((STARS, TIMES)), axis=1)
    planets = 0.02 * (np.arange(STARS) % 3 == 0)[:, None] * (np.sin(300 * times) > 0.9)
    flux = 1 + 0.1 * times - planets + 0.01 * rng.standard_normal(times.shape)
    return jnp.asarray(times, jnp.float32), jnp.asarray(flux, jnp.float32)


def run(turns: Turns) -> None:
    nights = [make_night(seed) for seed in range(4)]
    frequencies = jnp.linspace(2, 200, FREQUENCIES)
    remove_one = jax.jit(remove_trend)
    remove_all = jax.jit(jax.vmap(remove_trend))

    found, step = [], 0
    while turns.step():
        times, flux = nights[step % len(nights)]
        step += 1
        if turns.planted:
            residuals = jnp.stack([remove_one(times[star], flux[star]) for star in range(STARS)])
        else:
            residuals = remove_all(times, flux)
        found.append(np.asarray(best_frequencies(times, residuals, frequencies)))
