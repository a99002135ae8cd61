"""A U-Net in Flax that takes noise off photographs; the cause shows loss and PSNR in a progress bar at each step.

The fix shows them at each 50th. Batches are cut and made noisy by NumPy, which goes on while the GPU
works as long as nobody waits for it.
"""
# causes: synchronization, idle
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from turns import Turns

BATCH, CROP, SIGMA = 24, 128, 0.1
SHOW_EVERY = 50


class ConvBlock(nn.Module):
    """Two convolutions with group norm."""

    features: int

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.Conv(self.features, (3, 3), use_bias=False, dtype=jnp.bfloat16)(x)
            x = nn.silu(nn.GroupNorm(16, dtype=jnp.bfloat16)(x))
        return x


class UNet(nn.Module):
    """Noisy photographs to what is noise in them."""

    widths: tuple = (128, 256, 384)

    @nn.compact
    def __call__(self, x):
        skips = []
        for width in self.widths[:-1]:
            x = ConvBlock(width)(x)
            skips.append(x)
            x = nn.avg_pool(x, (2, 2), (2, 2))
        x = ConvBlock(self.widths[-1])(x)
        for width, skip in zip(self.widths[-2::-1], skips[::-1]):
            x = nn.ConvTranspose(width, (2, 2), (2, 2), dtype=jnp.bfloat16)(x)
            x = ConvBlock(width)(jnp.concatenate([x, skip], axis=-1))
        return nn.Conv(3, (1, 1))(x.astype(jnp.float32))


class Photographs:
    """Random crops of photographs in memory, with noise."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.photos = self.rng.integers(256, size=(64, 256, 256, 3), dtype=np.uint8)

    def next_batch(self):
        clean = np.empty((BATCH, CROP, CROP, 3), np.float32)
        for i in range(BATCH):
            photo = self.photos[self.rng.integers(len(self.photos))]
            y, x = self.rng.integers(256 - CROP, size=2)
            clean[i] = photo[y : y + CROP, x : x + CROP]
        clean /= 255.0
        noisy = clean + SIGMA * self.rng.standard_normal(clean.shape, dtype=np.float32)
        return noisy, clean


class ProgressBar:
    """The last line of a terminal."""

    def __init__(self):
        self.line = ""

    def set(self, step, loss, psnr):
        self.line = f"step {step:6d}  loss {loss:.5f}  psnr {psnr:.2f} dB"


@partial(jax.jit, donate_argnums=0)
def train_step(state, noisy, clean):
    def loss_fn(params):
        restored = noisy - state.apply_fn({"params": params}, noisy)
        return jnp.mean((restored - clean) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    metrics = {"loss": loss, "psnr": -10 * jnp.log10(loss)}
    return state.apply_gradients(grads=grads), metrics


def run(turns: Turns) -> None:
    data, bar, model = Photographs(), ProgressBar(), UNet()
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, CROP, CROP, 3)))["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-4))
    turns.synchronize = lambda: jax.block_until_ready(state.params)

    step = 0
    while turns.step():
        noisy, clean = data.next_batch()
        state, metrics = train_step(state, noisy, clean)
        step += 1
        if turns.planted or step % SHOW_EVERY == 0:
            bar.set(step, float(metrics["loss"]), float(metrics["psnr"]))
