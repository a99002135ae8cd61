"""Arrivals of earthquakes found by a network in JAX; the cause filters the waves by NumPy before each step.

The fix filters them in the compiled step.
"""
# causes: idle
import jax
import jax.numpy as jnp
import numpy as np
from turns import Turns

STATIONS, BATCH, SAMPLES, AXES, WIDTH, LAYERS = 256, 64, 4096, 3, 128, 6
RATE, LOW, HIGH = 100.0, 1.0, 20.0


def make_gains() -> np.ndarray:
    """How much of each frequency passes (Butterworth, order 4)."""
    frequencies = np.fft.rfftfreq(SAMPLES, 1 / RATE) + 1e-9
    passed = 1 / np.sqrt((1 + (LOW / frequencies) ** 8) * (1 + (frequencies / HIGH) ** 8))
    return passed.astype(np.float32)[:, None]


def filter_waves(xp, waves, gains):  # type: ignore[no-untyped-def]
    """Waves of shape (batch, samples, axes) without noise, scaled; `xp` is numpy or jax.numpy."""
    waves = waves - waves.mean(1, keepdims=True)
    waves = xp.fft.irfft(xp.fft.rfft(waves, axis=1) * gains, n=SAMPLES, axis=1)
    return (waves / (waves.std(1, keepdims=True) + 1e-6)).astype(xp.float32)


def convolve(x, kernel):  # type: ignore[no-untyped-def]
    return jax.lax.conv_general_dilated(
        x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )


def find_loss(weights, waves, arrivals):  # type: ignore[no-untyped-def]
    weights = jax.tree_util.tree_map(lambda weight: weight.astype(jnp.bfloat16), weights)
    x = convolve(waves.astype(jnp.bfloat16), weights["first"])
    for one, two in weights["layers"]:
        x = x + convolve(jax.nn.relu(convolve(jax.nn.relu(x), one)), two)
    logs = jax.nn.log_softmax(convolve(x, weights["last"])[..., 0].astype(jnp.float32))
    return -jnp.take_along_axis(logs, arrivals[:, None], 1).mean()


def train(weights, moments, waves, arrivals):  # type: ignore[no-untyped-def]
    """A step of gradient descent with momentum, and the loss."""
    loss, gradients = jax.value_and_grad(find_loss)(weights, waves, arrivals)
    moments = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, moments, gradients)
    weights = jax.tree_util.tree_map(lambda weight, m: weight - 1e-3 * m, weights, moments)
    return weights, moments, loss


def make_weights(random):  # type: ignore[no-untyped-def]
    def make(*shape):  # type: ignore[no-untyped-def]
        return jnp.asarray(0.02 * random.standard_normal(shape, np.float32))

    layers = [(make(7, WIDTH, WIDTH), make(7, WIDTH, WIDTH)) for _ in range(LAYERS)]
    return {"first": make(7, AXES, WIDTH), "layers": layers, "last": make(7, WIDTH, 1)}


def run(turns: Turns) -> None:
    random, gains = np.random.default_rng(0), make_gains()
    records = random.standard_normal((STATIONS, SAMPLES, AXES), np.float32)
    times = random.integers(SAMPLES, size=STATIONS, dtype=np.int32)
    weights = make_weights(random)
    state, steps = (weights, jax.tree_util.tree_map(jnp.zeros_like, weights), 0.0), 0
    train_filtered = jax.jit(train)
    train_raw = jax.jit(lambda w, m, waves, t: train(w, m, filter_waves(jnp, waves, gains), t))
    turns.synchronize = lambda: jax.block_until_ready(state)
    while turns.step():
        chosen = slice(steps % 4 * BATCH, steps % 4 * BATCH + BATCH)
        waves, arrivals = records[chosen], times[chosen]
        if turns.planted:
            state = train_filtered(*state[:2], filter_waves(np, waves, gains), arrivals)
        else:
            state = train_raw(*state[:2], waves, arrivals)
        steps += 1
