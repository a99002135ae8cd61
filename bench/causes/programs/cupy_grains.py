"""Grains of a metal measured in CuPy; the cause goes through them in Python, with a mask for each.

The fix counts and sums by label with `bincount`.
"""
# causes: tiny_kernels, host_bound
import cupy as cp
from turns import Turns

SIDE, GRAINS, ROUNDS = 2048, 48, 40


def grow_grains() -> cp.ndarray:
    """The number of the nearest seed for each pixel."""
    seeds = cp.random.default_rng(0).random((GRAINS, 2), dtype=cp.float32) * SIDE
    y, x = cp.mgrid[:SIDE, :SIDE].astype(cp.float32)
    nearest = cp.full((SIDE, SIDE), cp.inf, dtype=cp.float32)
    labels = cp.zeros((SIDE, SIDE), dtype=cp.int32)
    for number, (top, left) in enumerate(seeds.get()):
        distance = (y - top) ** 2 + (x - left) ** 2
        labels[distance < nearest] = number
        nearest = cp.minimum(nearest, distance)
    return labels


def clean(image: cp.ndarray, kernel: cp.ndarray) -> cp.ndarray:
    """The image without what is finer than the kernel, several times over."""
    for _ in range(ROUNDS):
        image = cp.fft.irfft2(cp.fft.rfft2(image) * kernel, s=image.shape)
        image = image + 0.1 * cp.tanh(image - image.mean())
    return image


def measure_one_by_one(labels: cp.ndarray, image: cp.ndarray) -> cp.ndarray:
    """Sizes, mean light and its spread."""
    rows = []
    for number in range(GRAINS):
        is_grain = labels == number
        size, light = is_grain.sum(), (image * is_grain).sum()
        square = (image * image * is_grain).sum()
        rows.append(cp.stack([size, light / size, cp.sqrt(square / size - (light / size) ** 2)]))
    return cp.stack(rows)


def measure_at_once(labels: cp.ndarray, image: cp.ndarray) -> cp.ndarray:
    """As measure_one_by_one."""
    labels, image = labels.ravel(), image.ravel()
    size = cp.bincount(labels, minlength=GRAINS)
    mean = cp.bincount(labels, image, minlength=GRAINS) / size
    square = cp.bincount(labels, image * image, minlength=GRAINS) / size
    return cp.stack([size, mean, cp.sqrt(square - mean * mean)], 1)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    labels = grow_grains()
    frames = cp.random.default_rng(1).random((4, SIDE, SIDE), dtype=cp.float32)
    up, across = cp.fft.fftfreq(SIDE)[:, None], cp.fft.rfftfreq(SIDE)[None]
    kernel = cp.exp(-40 * (up * up + across * across)).astype(cp.float32)
    steps, found = 0, None
    while turns.step():
        image = clean(frames[steps % len(frames)], kernel)
        measure = measure_one_by_one if turns.planted else measure_at_once
        found = measure(labels, image)
        steps += 1
    assert found is not None
