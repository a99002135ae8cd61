"""Image classification in JAX; the cause shifts and mirrors image by image, outside of jit.

The fix compiles the same change for a batch, with vmap.
"""
# causes: tiny_kernels, host_bound
import jax
import jax.numpy as jnp
from turns import Turns

BATCH, SIZE, PAD, IMAGES, WIDTH, LAYERS, CLASSES = 128, 32, 4, 8192, 128, 6, 100


def augment(key, image):  # type: ignore[no-untyped-def]
    """The image shifted by up to PAD pixels, mirrored or not, and lighter or darker."""
    first, second, third = jax.random.split(key, 3)
    corner = jax.random.randint(first, (2,), 0, 2 * PAD + 1)
    padded = jnp.pad(image, ((PAD, PAD), (PAD, PAD), (0, 0)))
    image = jax.lax.dynamic_slice(padded, (corner[0], corner[1], 0), (SIZE, SIZE, 3))
    image = jnp.where(jax.random.bernoulli(second), image[:, ::-1], image)
    return image * jax.random.uniform(third, (), minval=0.7, maxval=1.3)


def convolve(x, kernel):  # type: ignore[no-untyped-def]
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)


def find_loss(weights, images, labels):  # type: ignore[no-untyped-def]
    """The mean cross entropy of a residual network in bf16."""
    x = convolve(images.astype(jnp.bfloat16), weights["stem"].astype(jnp.bfloat16))
    for kernel in weights["layers"]:
        y = convolve(jax.nn.relu(x), kernel.astype(jnp.bfloat16))
        x = x + y / jnp.sqrt(1e-5 + jnp.mean(y * y, (1, 2), keepdims=True))
    logits = x.mean((1, 2)).astype(jnp.float32) @ weights["head"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.mean()


@jax.jit
def train(weights, images, labels):  # type: ignore[no-untyped-def]
    """The weights after a step of gradient descent."""
    gradients = jax.grad(find_loss)(weights, images, labels)
    return jax.tree.map(lambda weight, slope: weight - 0.01 * slope, weights, gradients)


def run(turns: Turns) -> None:
    key, *keys = jax.random.split(jax.random.PRNGKey(0), 5)
    weights = {
        "stem": 0.2 * jax.random.normal(keys[0], (3, 3, 3, WIDTH)),
        "layers": list(0.03 * jax.random.normal(keys[1], (LAYERS, 3, 3, WIDTH, WIDTH))),
        "head": 0.1 * jax.random.normal(keys[2], (WIDTH, CLASSES)),
    }
    data = jax.random.uniform(keys[3], (IMAGES, SIZE, SIZE, 3))
    classes = jnp.arange(IMAGES) % CLASSES
    turns.synchronize = lambda: jax.block_until_ready(weights)
    augment_batch = jax.jit(jax.vmap(augment))
    while turns.step():
        key, mine = jax.random.split(key)
        chosen = jax.random.randint(mine, (BATCH,), 0, IMAGES)
        images, each = data[chosen], jax.random.split(mine, BATCH)
        if turns.planted:
            images = jnp.stack([augment(one, image) for one, image in zip(each, images)])  # noqa: B905 - arrays
        else:
            images = augment_batch(each, images)
        weights = train(weights, images, classes[chosen])
