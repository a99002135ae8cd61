"""Evolution of controllers in JAX; the cause calls a compiled move of the simulation for each time.

The fix compiles all times as one `lax.scan`.
"""
# causes: tiny_kernels, host_bound
import jax
import jax.numpy as jnp
from turns import Turns

CONTROLLERS, CARTS, HIDDEN, TIMES, SPREAD = 128, 64, 64, 400, 0.1


def move(weights, state):  # type: ignore[no-untyped-def]
    """The next state of all carts with their poles, and the rewards up to it."""
    carts, rewards = state
    force = 10 * jnp.tanh(jnp.tanh(carts @ weights["first"]) @ weights["second"])[..., 0]
    _, speed, angle, turn = jnp.moveaxis(carts, -1, 0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (force + 0.05 * turn**2 * sine) / 1.1
    spin = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    pull = push - 0.05 * spin * cosine / 1.1
    changes = jnp.stack([speed, pull, turn, spin], -1)
    carts = jnp.clip(carts + 0.02 * changes, -10, 10)
    return carts, rewards + (jnp.abs(carts[..., 2]) < 0.2).mean(-1)


@jax.jit
def begin(center, generation):  # type: ignore[no-untyped-def]
    """Noise, the controllers that it makes of their center, and the first state."""
    key, *keys = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(0), generation), 3)
    noise = {
        name: jax.random.normal(one, (CONTROLLERS, *center[name].shape))
        for name, one in zip(center, keys, strict=True)
    }
    weights = {name: center[name] + SPREAD * noise[name] for name in center}
    carts = 0.05 * jax.random.normal(key, (CONTROLLERS, CARTS, 4))
    return noise, weights, (carts, jnp.zeros(CONTROLLERS))


@jax.jit
def improve(center, noise, rewards):  # type: ignore[no-untyped-def]
    """The center after a step towards the controllers with more reward than others."""
    scores = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    return {
        name: center[name] + 0.01 * jnp.tensordot(scores, noise[name], 1) / CONTROLLERS
        for name in center
    }


@jax.jit
def move_to_end(weights, state):  # type: ignore[no-untyped-def]
    """The state after all times."""
    return jax.lax.scan(lambda now, _: (move(weights, now), None), state, None, length=TIMES)[0]


def run(turns: Turns) -> None:
    center = {"first": jnp.zeros((4, HIDDEN)), "second": jnp.zeros((HIDDEN, 1))}
    turns.synchronize = lambda: jax.block_until_ready(center)
    move_once, generation = jax.jit(move), 0
    while turns.step():
        generation += 1
        noise, weights, state = begin(center, generation)
        if turns.planted:
            for _ in range(TIMES):
                state = move_once(weights, state)
        else:
            state = move_to_end(weights, state)
        center = improve(center, noise, state[1])
