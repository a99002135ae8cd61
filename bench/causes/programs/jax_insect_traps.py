"""Insects on photographs of traps told by an MLP-Mixer in JAX; the cause copies a batch when its turn has come.

The fix copies the next batch by `jax.device_put` while this one is looked at, as
`prefetch_to_device` of Flax does.
"""
# causes: idle, pageable_copy, exposed_copy
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

PHOTOS, SIDE, PATCH, KINDS = 112, 512, 16, 200
PATCHES, PIXELS = (SIDE // PATCH) ** 2, 3 * PATCH**2
WIDTH, TOKEN_WIDTH, CHANNEL_WIDTH, LAYERS = 512, 512, 2048, 8
STORED_BATCHES = 4


def normalize(x, scale):
    x = x.astype(jnp.float32)
    x = x - x.mean(-1, keepdims=True)
    return (x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16) * scale


def mix(layer, x):
    """Over patches, then over channels."""
    y = normalize(x, layer["scale1"])
    y = jax.nn.gelu(jnp.einsum("bpc,pq->bqc", y, layer["tokens_in"]))
    x = x + jnp.einsum("bqc,qp->bpc", y, layer["tokens_out"])
    y = normalize(x, layer["scale2"])
    return x + jax.nn.gelu(y @ layer["channels_in"]) @ layer["channels_out"]


@jax.jit
def classify(weights, photos):
    """The likeliest kind of insect on each photograph, and how likely it is."""
    side = SIDE // PATCH
    patches = photos.reshape(-1, side, PATCH, side, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
    patches = patches.reshape(-1, PATCHES, PIXELS).astype(jnp.bfloat16) / 127.5 - 1
    x = patches @ weights["embed"]
    for layer in weights["layers"]:
        x = mix(layer, x)
    logits = normalize(x, weights["scale"]).mean(1) @ weights["head"]
    chances = jax.nn.softmax(logits.astype(jnp.float32))
    return chances.argmax(-1), chances.max(-1)


def make_weights(random):
    def make(*shape):
        return jnp.asarray(0.03 * random.standard_normal(shape, np.float32), jnp.bfloat16)

    def make_layer():
        return {
            "scale1": jnp.ones(WIDTH, jnp.bfloat16),
            "tokens_in": make(PATCHES, TOKEN_WIDTH),
            "tokens_out": make(TOKEN_WIDTH, PATCHES),
            "scale2": jnp.ones(WIDTH, jnp.bfloat16),
            "channels_in": make(WIDTH, CHANNEL_WIDTH),
            "channels_out": make(CHANNEL_WIDTH, WIDTH),
        }

    return {
        "embed": make(PIXELS, WIDTH),
        "layers": [make_layer() for _ in range(LAYERS)],
        "scale": jnp.ones(WIDTH, jnp.bfloat16),
        "head": make(WIDTH, KINDS),
    }


def run(turns: Turns) -> None:
    random = np.random.default_rng(0)
    shape = (PHOTOS, SIDE, SIDE, 3)
    stored = [random.integers(256, size=shape, dtype=np.uint8) for _ in range(STORED_BATCHES)]
    weights = make_weights(random)
    turns.synchronize = lambda: jax.block_until_ready(weights)
    step, ahead, counted = 0, None, np.zeros(KINDS, np.int64)
    while turns.step():
        photos = stored[step % STORED_BATCHES]
        step += 1
        if turns.planted:
            kinds, _ = classify(weights, photos)
        else:
            now = jax.device_put(photos) if ahead is None else ahead
            kinds, _ = classify(weights, now)
            ahead = jax.device_put(stored[step % STORED_BATCHES])
        counted += np.bincount(np.asarray(kinds), minlength=KINDS)
