"""Asteroids that attract each other in JAX; the cause calls `jax.lax.map` with a lambda, outside of jit.

It adds up the energy in each fourth step, so that loop is traced and compiled anew there. The fix
wraps the function in `jax.jit` once.
"""
# causes: compile
import functools

import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

BODIES, BLOCK, MOVES = 8192, 512, 160
SOFTENING, TIME_STEP = 0.05, 1e-3
STEPS_BETWEEN_ENERGIES = 4


def accelerate(positions, masses):
    """The pull of all bodies on each one; positions are (3, bodies)."""
    x, y, z = (axis[None, :] - axis[:, None] for axis in positions)
    inverse = jax.lax.rsqrt(x * x + y * y + z * z + SOFTENING**2)
    pull = masses * inverse * inverse * inverse
    return jnp.stack([(pull * x).sum(1), (pull * y).sum(1), (pull * z).sum(1)])


@functools.partial(jax.jit, static_argnames="moves")
def leapfrog(positions, speeds, masses, moves):
    def move(_, state):
        positions, speeds = state
        positions = positions + 0.5 * TIME_STEP * speeds
        speeds = speeds + TIME_STEP * accelerate(positions, masses)
        return positions + 0.5 * TIME_STEP * speeds, speeds

    return jax.lax.fori_loop(0, moves, move, (positions, speeds))


def find_energy(positions, speeds, masses):
    """Kinetic and potential energy; the latter block by block, as all pairs take much memory."""
    blocks = positions.reshape(3, -1, BLOCK).transpose(1, 0, 2), masses.reshape(-1, BLOCK)

    def attract(here, there):
        squares = sum((a[:, None] - b[None, :]) ** 2 for a, b in zip(here, there, strict=True))
        return jax.lax.rsqrt(squares + SOFTENING**2)

    potentials = jax.lax.map(
        lambda block: (block[1][:, None] * masses * attract(block[0], positions)).sum(), blocks
    )
    kinetic = 0.5 * (masses * (speeds**2).sum(0)).sum()
    return kinetic - 0.5 * potentials.sum()


def run(turns: Turns) -> None:
    turns.period = STEPS_BETWEEN_ENERGIES
    random = np.random.default_rng(0)
    positions = jnp.asarray(random.standard_normal((3, BODIES), np.float32))
    speeds = jnp.asarray(0.3 * random.standard_normal((3, BODIES), np.float32))
    masses = jnp.full(BODIES, 1 / BODIES, jnp.float32)
    find_energy_compiled = jax.jit(find_energy)
    turns.synchronize = lambda: jax.block_until_ready((positions, speeds))
    energies = []
    step = 0
    while turns.step():
        positions, speeds = leapfrog(positions, speeds, masses, moves=MOVES)
        step += 1
        if step % STEPS_BETWEEN_ENERGIES == 0:
            find = find_energy if turns.planted else find_energy_compiled
            energies.append(float(find(positions, speeds, masses)))
