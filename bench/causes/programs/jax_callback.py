"""A simulation in JAX; the cause asks NumPy for a table's values by a callback in each step."""
# causes: idle
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

SIZE, BATCH, LAYERS, POINTS = 4096, 8192, 16, 1 << 19
PLACES = np.linspace(-4, 4, 256, dtype=np.float32)
VALUES = np.tanh(PLACES)


def look_up(stretch):  # type: ignore[no-untyped-def]
    """The stress of a material, between the points of its table."""
    return np.interp(np.asarray(stretch), PLACES, VALUES).astype(np.float32)


def advance(state, weights, on_host):  # type: ignore[no-untyped-def]
    stretch, x = state
    for weight in weights:
        x = x + 0.1 * jnp.tanh(x @ weight)
    if on_host:
        stress = jax.pure_callback(look_up, jax.ShapeDtypeStruct((POINTS,), jnp.float32), stretch)
    else:
        stress = jnp.interp(stretch, PLACES, VALUES)
    change = jnp.mean(x.astype(jnp.float32)) + 0.01 * jnp.roll(stress, 1)
    return stretch - 0.01 * stress + change, x / (1 + jnp.abs(jnp.max(x)))


def run(turns: Turns) -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 2)
    weights = [0.02 * jax.random.normal(key, (SIZE, SIZE), jnp.bfloat16) for key in keys[2:]]
    state = (
        jax.random.normal(keys[0], (POINTS,), jnp.float32),
        jax.random.normal(keys[1], (BATCH, SIZE), jnp.bfloat16),
    )
    compiled = jax.jit(advance, static_argnums=2)
    turns.synchronize = lambda: jax.block_until_ready(state)
    while turns.step():
        state = compiled(state, weights, turns.planted)
