"""A server that names what is in photographs, in JAX; the cause makes a new `jax.jit` of a lambda for each request.

So that part, which prepares the images, is compiled anew. The fix compiles it once.
"""
# causes: compile
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

BATCH, SIZE, PATCH, WIDTH, HEADS, LAYERS, CLASSES = 512, 224, 16, 768, 12, 12, 1000
SIDE = SIZE // PATCH
SHAPES = {
    "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
}  # fmt: skip


def prepare(images):  # type: ignore[no-untyped-def]
    """Patches of images of bytes, with a mean of zero."""
    mean, spread = jnp.array([0.485, 0.456, 0.406]), jnp.array([0.229, 0.224, 0.225])
    scaled = (images / 255.0 - mean) / spread
    patches = scaled.reshape(BATCH, SIDE, PATCH, SIDE, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
    return patches.reshape(BATCH, SIDE * SIDE, -1).astype(jnp.bfloat16)


def normalize(x):  # type: ignore[no-untyped-def]
    wide = x.astype(jnp.float32)
    spread = jnp.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    return ((wide - wide.mean(-1, keepdims=True)) / spread).astype(x.dtype)


def apply_layer(x, layer):  # type: ignore[no-untyped-def]
    qkv = (normalize(x) @ layer["qkv"]).reshape(*x.shape[:2], 3, HEADS, -1)
    mixed = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
    x = x + mixed.reshape(x.shape) @ layer["out"]
    return x + jax.nn.gelu(normalize(x) @ layer["up"]) @ layer["down"], None


@jax.jit
def classify(weights, patches):  # type: ignore[no-untyped-def]
    x, _ = jax.lax.scan(apply_layer, patches @ weights["first"], weights["layers"])
    return jax.lax.top_k((normalize(x).mean(1) @ weights["last"]).astype(jnp.float32), 5)


def make_weights():  # type: ignore[no-untyped-def]
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 8))

    def make(*shape):  # type: ignore[no-untyped-def]
        return 0.02 * jax.random.normal(next(keys), shape, jnp.bfloat16)

    layers = {name: make(LAYERS, *shape) for name, shape in SHAPES.items()}
    return {"first": make(3 * PATCH**2, WIDTH), "layers": layers, "last": make(WIDTH, CLASSES)}


def run(turns: Turns) -> None:
    weights, ready, answers = make_weights(), jax.jit(prepare), []
    photographs = np.random.default_rng(0).integers(256, size=(BATCH, SIZE, SIZE, 3), dtype=np.uint8)
    requests = jax.device_put(photographs)
    while turns.step():
        preparing = jax.jit(lambda images: prepare(images)) if turns.planted else ready
        scores, classes = classify(weights, preparing(requests))
        answers.append((np.asarray(scores), np.asarray(classes)))
