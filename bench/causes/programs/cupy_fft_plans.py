"""Tiles of a microscope aligned in CuPy; the cause is a cache of 16 plans for tiles of 32 sizes."""
# causes: idle, host_bound
import cupy as cp
from cupy.fft.config import get_plan_cache
from turns import Turns

SIZES, CHANNELS, WIDTH, BY_DEFAULT, ENOUGH = 32, 8, 320, 16, 128


def find_shift(left: cp.ndarray, right: cp.ndarray) -> cp.ndarray:
    """The place of the peak of the phase correlation of two overlaps, for each channel."""
    cross = cp.fft.fft2(left) * cp.fft.fft2(right).conj()
    cross /= cp.abs(cross) + 1e-6
    return cp.fft.ifft2(cross).real.reshape(CHANNELS, -1).argmax(1)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cache = get_plan_cache()
    pairs = []
    for number in range(SIZES):
        left = cp.random.rand(CHANNELS, 256 + 16 * number, WIDTH, dtype=cp.float32)
        pairs.append((left, cp.roll(left, number, 1)))
    shifts = cp.zeros((SIZES, CHANNELS), cp.int64)
    while turns.step():
        size = BY_DEFAULT if turns.planted else ENOUGH
        if cache.get_size() != size:
            cache.set_size(size)
        for number, pair in enumerate(pairs):
            shifts[number] = find_shift(*pair)
        cp.asnumpy(shifts)
