"""Shapes told from clouds of points in JAX; the cause picks far points of each cloud by NumPy.

The fix picks them in the compiled step.
"""
# causes: idle
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

CLOUDS, POINTS, PICKED, NEAR, CLASSES, STORED = 16, 1024, 128, 64, 40, 32
WIDTHS = (3, 256, 512, 1024, 2048)

Weights = list[jax.Array]


def pick_on_host(clouds: np.ndarray) -> np.ndarray:
    """Of each cloud, the point that is farthest from those picked before, again and again."""
    rows = np.arange(len(clouds))
    distances = np.full(clouds.shape[:2], np.inf, np.float32)
    picked = np.zeros((len(clouds), PICKED), np.int32)
    for number in range(1, PICKED):
        last = clouds[rows, picked[:, number - 1]]
        distances = np.minimum(distances, ((clouds - last[:, None]) ** 2).sum(-1))
        picked[:, number] = distances.argmax(1)
    return picked


def pick_on_gpu(clouds: jax.Array) -> jax.Array:
    """As pick_on_host."""

    def pick(number: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        distances, picked = state
        last = jnp.take_along_axis(clouds, picked[:, number - 1, None, None], 1)
        distances = jnp.minimum(distances, ((clouds - last) ** 2).sum(-1))
        return distances, picked.at[:, number].set(distances.argmax(1).astype(jnp.int32))

    state = jnp.full(clouds.shape[:2], jnp.inf), jnp.zeros((len(clouds), PICKED), jnp.int32)
    return jax.lax.fori_loop(1, PICKED, pick, state)[1]


def compute_loss(
    weights: Weights, clouds: jax.Array, picked: jax.Array, labels: jax.Array
) -> jax.Array:
    centers = jnp.take_along_axis(clouds, picked[..., None], 1)
    distances = ((centers[:, :, None] - clouds[:, None]) ** 2).sum(-1)
    near = jax.lax.top_k(-distances, NEAR)[1]
    groups = jax.vmap(lambda cloud, chosen: cloud[chosen])(clouds, near) - centers[:, :, None]
    x = groups.astype(jnp.bfloat16)
    for weight in weights[:-1]:
        x = jax.nn.relu(x @ weight.astype(jnp.bfloat16))
    logits = x.max(2).mean(1).astype(jnp.float32) @ weights[-1]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@jax.jit
def train(
    weights: Weights, clouds: jax.Array, picked: jax.Array | None, labels: jax.Array
) -> Weights:
    if picked is None:
        picked = pick_on_gpu(clouds)
    gradients = jax.grad(compute_loss)(weights, clouds, picked, labels)
    return [weight - 1e-3 * one for weight, one in zip(weights, gradients, strict=True)]


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    shapes = [*zip(WIDTHS, WIDTHS[1:], strict=False), (WIDTHS[-1], CLASSES)]
    weights = [
        jnp.asarray(random.standard_normal(shape, np.float32) * (2 / shape[0]) ** 0.5)
        for shape in shapes
    ]
    stored = random.standard_normal((STORED, CLOUDS, POINTS, 3), np.float32)
    labels = jnp.asarray(random.integers(CLASSES, size=CLOUDS))
    turns.synchronize = lambda: jax.block_until_ready(weights)
    steps = 0
    while turns.step():
        clouds = stored[steps % STORED] * random.uniform(0.8, 1.2, (CLOUDS, 1, 1)).astype(np.float32)
        steps += 1
        picked = pick_on_host(clouds) if turns.planted else None
        weights = train(weights, clouds, picked, labels)
