"""PPO in JAX; the cause calls a compiled update for each part of a batch, chosen outside of jit.

The fix goes over the parts inside of one compiled function.
"""
# causes: host_bound, tiny_kernels
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

MOVES, SEEN, ACTIONS, WIDTH, PARTS, EPOCHS, RATE = 8192, 64, 8, 256, 16, 2, 3e-4

# The dtype of each array of a batch stays as it is: (seen, action, old log chance, advantage, return).


def act(weights, seen):  # type: ignore[no-untyped-def]
    """Logarithms of the actions' chances, and the worth of what is seen."""
    x = jnp.tanh(jnp.tanh(seen @ weights["one"]) @ weights["two"])
    return jax.nn.log_softmax(x @ weights["action"]), (x @ weights["worth"])[:, 0]


def find_loss(weights, part):  # type: ignore[no-untyped-def]
    seen, action, old, advantage, wanted = part
    chances, worth = act(weights, seen)
    ratio = jnp.exp(jnp.take_along_axis(chances, action[:, None], 1)[:, 0] - old)
    gain = jnp.minimum(ratio * advantage, ratio.clip(0.8, 1.2) * advantage).mean()
    spread = -(jnp.exp(chances) * chances).sum(-1).mean()
    return -gain + 0.5 * jnp.square(worth - wanted).mean() - 0.01 * spread


def update(state, part):  # type: ignore[no-untyped-def]
    """A step of Adam; state: (weights, means, squares)."""
    weights, means, squares = state
    loss, slopes = jax.value_and_grad(find_loss)(weights, part)
    means = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, means, slopes)
    squares = jax.tree_util.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, slopes)
    weights = jax.tree_util.tree_map(
        lambda w, m, v: w - RATE * m / (jnp.sqrt(v) + 1e-5), weights, means, squares
    )
    return (weights, means, squares), loss


@jax.jit
def update_all(state, batch, orders):  # type: ignore[no-untyped-def]
    """The updates for all parts of all epochs."""

    def one(state, chosen):  # type: ignore[no-untyped-def]
        return update(state, tuple(array[chosen] for array in batch))

    return jax.lax.scan(one, state, orders.reshape(EPOCHS * PARTS, -1))


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)

    def make(*shape):  # type: ignore[no-untyped-def]
        return jnp.asarray(0.05 * random.standard_normal(shape, np.float32))

    weights = {
        "one": make(SEEN, WIDTH), "two": make(WIDTH, WIDTH), "action": make(WIDTH, ACTIONS),
        "worth": make(WIDTH, 1),
    }  # fmt: skip
    batch = (
        make(MOVES, SEEN), jnp.asarray(random.integers(ACTIONS, size=MOVES)), make(MOVES) - 2.0,
        make(MOVES), make(MOVES),
    )  # fmt: skip
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    state, key, losses = (weights, zeros, zeros), jax.random.PRNGKey(0), jnp.zeros(())
    update_one = jax.jit(update)
    draw_orders = jax.jit(
        lambda key: jax.vmap(lambda each: jax.random.permutation(each, MOVES))(
            jax.random.split(key, EPOCHS)
        )
    )
    turns.synchronize = lambda: jax.block_until_ready((state, losses))
    while turns.step():
        key, now = jax.random.split(key)
        orders = draw_orders(now)
        if turns.planted:
            found = []
            for order in orders:
                for chosen in order.reshape(PARTS, -1):
                    state, loss = update_one(state, tuple(array[chosen] for array in batch))
                    found.append(loss)
            losses = jnp.stack(found)
        else:
            state, losses = update_all(state, batch, orders)
