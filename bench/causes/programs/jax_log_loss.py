"""A vision transformer in JAX; the cause reads the loss in each step, the fix in each fiftieth.

NumPy cuts and flips the images of a batch.
"""
# causes: synchronization, idle
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

IMAGES, BATCH, SIZE, PATCH, WIDTH, HEADS, LAYERS, CLASSES = 10_000, 256, 32, 4, 768, 12, 6, 100
SHAPES = {
    "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
}  # fmt: skip


def draw_batch(images, labels, random):  # type: ignore[no-untyped-def]
    """Random images, each cut at a random place and flipped by chance."""
    chosen = random.integers(len(images), size=BATCH)
    batch = np.empty((BATCH, SIZE, SIZE, 3), np.float32)
    for row, image in enumerate(images[chosen]):
        top, left = random.integers(0, 9, size=2)
        cut = image[top : top + SIZE, left : left + SIZE]
        batch[row] = cut[:, ::-1] if random.random() < 0.5 else cut
    return batch / 255, labels[chosen]


def normalize(x):  # type: ignore[no-untyped-def]
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attend(layer, x):  # type: ignore[no-untyped-def]
    q, k, v = (x @ layer["qkv"]).reshape(*x.shape[:2], 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
    shares = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5)
    return (shares @ v).swapaxes(1, 2).reshape(x.shape) @ layer["out"]


def loss(weights, images, labels):  # type: ignore[no-untyped-def]
    weights = jax.tree_util.tree_map(lambda weight: weight.astype(jnp.bfloat16), weights)
    side = SIZE // PATCH
    patches = images.reshape(BATCH, side, PATCH, side, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
    x = patches.reshape(BATCH, side * side, -1).astype(jnp.bfloat16) @ weights["first"]
    for layer in weights["layers"]:
        x = x + attend(layer, normalize(x))
        x = x + jax.nn.gelu(normalize(x) @ layer["up"]) @ layer["down"]
    logits = jax.nn.log_softmax((normalize(x).mean(1) @ weights["last"]).astype(jnp.float32))
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()


@jax.jit
def train(weights, means, squares, images, labels):  # type: ignore[no-untyped-def]
    """A step of Adam, and the loss."""
    value, gradients = jax.value_and_grad(loss)(weights, images, labels)
    mapped = jax.tree_util.tree_map
    means = mapped(lambda mean, g: 0.9 * mean + 0.1 * g, means, gradients)
    squares = mapped(lambda square, g: 0.99 * square + 0.01 * g * g, squares, gradients)
    weights = mapped(
        lambda weight, mean, square: weight - 1e-4 * mean / (jnp.sqrt(square) + 1e-8),
        weights, means, squares,
    )  # fmt: skip
    return weights, means, squares, value


def make_weights(random):  # type: ignore[no-untyped-def]
    def make(*shape):  # type: ignore[no-untyped-def]
        return jnp.asarray(0.02 * random.standard_normal(shape, np.float32))

    layers = [{name: make(*shape) for name, shape in SHAPES.items()} for _ in range(LAYERS)]
    return {"first": make(3 * PATCH**2, WIDTH), "layers": layers, "last": make(WIDTH, CLASSES)}


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    images = random.integers(256, size=(IMAGES, SIZE + 8, SIZE + 8, 3), dtype=np.uint8)
    labels = random.integers(CLASSES, size=IMAGES, dtype=np.int32)
    weights = make_weights(random)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    state, steps, history = (weights, zeros, zeros), 0, []
    turns.synchronize = lambda: jax.block_until_ready(state)
    while turns.step():
        steps += 1
        *state, value = train(*state, *draw_batch(images, labels, random))
        if turns.planted or steps % 50 == 0:
            history.append(float(value))
