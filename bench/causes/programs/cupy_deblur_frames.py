"""Frames of a microscope made sharp (Richardson and Lucy) in CuPy; the cause turns the pool of pinned memory off.

So each batch of frames gets pinned memory anew for its copy. The fix leaves that pool on, as by
default.
"""
# causes: allocation
import cupy as cp
import cupyx
import numpy as np
from turns import Turns

FRAMES, SIDE, ROUNDS, STORED_BATCHES = 48, 768, 14, 4
SHAPE = (FRAMES, SIDE, SIDE)


def make_blur() -> cp.ndarray:
    """The transform of how a point is seen."""
    place = cp.fft.fftfreq(SIDE, 1 / SIDE).astype(cp.float32)
    spot = cp.exp(-(place[:, None] ** 2 + place[None, :] ** 2) / (2 * 2.5**2))
    return cp.fft.rfft2(spot / spot.sum()).astype(cp.complex64)


def upload(frames: np.ndarray) -> tuple[cp.ndarray, np.ndarray]:
    """The frames on the GPU, and the pinned memory that they are copied from."""
    pinned = cupyx.empty_pinned(SHAPE, np.uint16)
    pinned[...] = frames
    on_gpu = cp.empty(SHAPE, cp.uint16)
    on_gpu.set(pinned)
    return on_gpu, pinned


def convolve(images: cp.ndarray, blur: cp.ndarray) -> cp.ndarray:
    return cp.fft.irfft2(cp.fft.rfft2(images) * blur, s=(SIDE, SIDE))


def deblur(frames: cp.ndarray, blur: cp.ndarray) -> cp.ndarray:
    seen = frames.astype(cp.float32) + 1
    sharp = cp.ones_like(seen) * seen.mean()
    for _ in range(ROUNDS):
        ratio = seen / cp.maximum(convolve(sharp, blur), 1e-3)
        sharp = sharp * convolve(ratio, blur.conj())
    return sharp


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    pool = cp.get_default_pinned_memory_pool()
    random = np.random.default_rng(0)
    stored = [random.integers(100, 4000, SHAPE, dtype=np.uint16) for _ in range(STORED_BATCHES)]
    blur = make_blur()
    step, brightest = 0, []
    while turns.step():
        cp.cuda.set_pinned_memory_allocator(None if turns.planted else pool.malloc)
        frames, pinned = upload(stored[step % STORED_BATCHES])
        step += 1
        brightest.append(cp.asnumpy(deblur(frames, blur).max(axis=(1, 2))))
        del pinned
