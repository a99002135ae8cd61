"""A ResMLP in JAX; the cause reads the norm of each weight and gradient for the log, array by array.

The fix reads them all at once, and in each 20th step.
"""
# causes: synchronization, idle, host_bound
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

BATCH, PATCHES, WIDTH, LAYERS, CLASSES, PERIOD = 128, 196, 384, 12, 100, 20

Weights = dict[str, jax.Array]


def make_weights(random: np.random.Generator) -> Weights:
    shapes = {"first": (3 * 256, WIDTH), "last": (WIDTH, CLASSES)}
    for layer in range(LAYERS):
        shapes[f"{layer}/mix"] = (PATCHES, PATCHES)
        shapes[f"{layer}/up"] = (WIDTH, 4 * WIDTH)
        shapes[f"{layer}/down"] = (4 * WIDTH, WIDTH)
    return {
        name: jnp.asarray(0.02 * random.standard_normal(shape, np.float32))
        for name, shape in shapes.items()
    }


def compute_loss(weights: Weights, patches: jax.Array, labels: jax.Array) -> jax.Array:
    weights = {name: weight.astype(jnp.bfloat16) for name, weight in weights.items()}
    x = patches @ weights["first"]
    for layer in range(LAYERS):
        x = x + jnp.einsum("bpw,pq->bqw", x, weights[f"{layer}/mix"])
        x = x + jax.nn.gelu(x @ weights[f"{layer}/up"]) @ weights[f"{layer}/down"]
    logits = (x.mean(1) @ weights["last"]).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@jax.jit
def train(
    weights: Weights, speeds: Weights, patches: jax.Array, labels: jax.Array
) -> tuple[Weights, Weights, Weights]:
    """A step by momentum, and the gradients."""
    gradients = jax.grad(compute_loss)(weights, patches, labels)
    speeds = {name: 0.9 * speeds[name] + gradients[name] for name in weights}
    weights = {name: weights[name] - 1e-3 * speeds[name] for name in weights}
    return weights, speeds, gradients


def read_one_by_one(weights: Weights, gradients: Weights) -> dict[str, float]:
    norms = {f"weight/{name}": float(jnp.linalg.norm(one)) for name, one in weights.items()}
    return norms | {f"grad/{name}": float(jnp.linalg.norm(one)) for name, one in gradients.items()}


@jax.jit
def find_norms(arrays: Weights) -> Weights:
    return {name: jnp.linalg.norm(one) for name, one in arrays.items()}


def read_at_once(weights: Weights, gradients: Weights) -> dict[str, float]:
    named = {f"weight/{name}": one for name, one in weights.items()}
    named |= {f"grad/{name}": one for name, one in gradients.items()}
    return {name: float(norm) for name, norm in jax.device_get(find_norms(named)).items()}


def run(turns: Turns) -> None:
    turns.period = PERIOD
    random = np.random.default_rng(0)
    weights = make_weights(random)
    speeds = {name: jnp.zeros_like(weight) for name, weight in weights.items()}
    patches = jnp.asarray(random.standard_normal((BATCH, PATCHES, 3 * 256), np.float32))
    patches = patches.astype(jnp.bfloat16)
    labels = jnp.asarray(random.integers(CLASSES, size=BATCH))
    turns.synchronize = lambda: jax.block_until_ready(weights)
    steps = 0
    log: list[dict[str, float]] = []
    while turns.step():
        steps += 1
        weights, speeds, gradients = train(weights, speeds, patches, labels)
        if turns.planted:
            log.append(read_one_by_one(weights, gradients))
        elif steps % PERIOD == 0:
            log.append(read_at_once(weights, gradients))
