"""A magnet that cools (Ising model) in JAX; the cause makes the temperature a static argument of `jax.jit`.

It changes at each tenth step, so the sweep is compiled anew there. The fix passes it as an array.
"""
# causes: compile
from functools import partial

import jax
import jax.numpy as jnp
from turns import Turns

SIZE = 2048
SWEEPS = 80
STEPS_PER_TEMPERATURE = 10


def metropolis(spins, key, temperature, checkerboard):
    """Sweeps over the two colours of a checkerboard."""

    def half_sweep(i, carry):
        spins, key = carry
        key, draw = jax.random.split(key)
        neighbours = (
            jnp.roll(spins, 1, 0) + jnp.roll(spins, -1, 0) + jnp.roll(spins, 1, 1) + jnp.roll(spins, -1, 1)
        )
        delta = 2.0 * spins * neighbours
        accepted = jax.random.uniform(draw, spins.shape) < jnp.exp(-delta / temperature)
        flip = accepted & (checkerboard == i % 2)
        return jnp.where(flip, -spins, spins), key

    return jax.lax.fori_loop(0, 2 * SWEEPS, half_sweep, (spins, key))


@jax.jit
def observe(spins):
    """Magnetization and energy a spin."""
    bonds = spins * (jnp.roll(spins, 1, 0) + jnp.roll(spins, 1, 1))
    return jnp.stack([spins.mean(), -bonds.mean()])


def run(turns: Turns) -> None:
    turns.period = STEPS_PER_TEMPERATURE
    key = jax.random.key(0)
    spins = jnp.where(jax.random.bernoulli(key, 0.5, (SIZE, SIZE)), 1.0, -1.0).astype(jnp.float32)
    rows = jnp.arange(SIZE)
    checkerboard = (rows[:, None] + rows) % 2
    static_sweep = partial(jax.jit, static_argnames="temperature")(metropolis)
    traced_sweep = jax.jit(metropolis)
    turns.synchronize = lambda: jax.block_until_ready(spins)

    step, temperature, history = 0, 4.0, []
    while turns.step():
        if step % STEPS_PER_TEMPERATURE == 0:
            temperature *= 0.998
        step += 1
        if turns.planted:
            spins, key = static_sweep(spins, key, temperature=temperature, checkerboard=checkerboard)
        else:
            spins, key = traced_sweep(spins, key, jnp.float32(temperature), checkerboard)
        history.append(observe(spins))
