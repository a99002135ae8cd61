"""Turbulence in CuPy by Fourier transforms; the cause gives free memory back in each step."""
# causes: allocation
import cupy as cp
from turns import Turns

SIZE, PACE, FRICTION = 4096, 1e-4, 1e-4


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    across = cp.fft.rfftfreq(SIZE, 1 / SIZE).astype(cp.float32)[None, :]
    along = cp.fft.fftfreq(SIZE, 1 / SIZE).astype(cp.float32)[:, None]
    square = across**2 + along**2
    inverse = 1 / cp.maximum(square, 1)
    swirl = cp.fft.rfft2(cp.random.default_rng(0).standard_normal((SIZE, SIZE), cp.float32))

    def change(swirl: cp.ndarray) -> cp.ndarray:
        """The spectrum of the change of the vorticity: what the flow carries, and friction."""
        stream = swirl * inverse
        flow = cp.fft.irfft2(1j * along * stream), cp.fft.irfft2(-1j * across * stream)
        slope = cp.fft.irfft2(1j * across * swirl), cp.fft.irfft2(1j * along * swirl)
        carried = flow[0] * slope[0] + flow[1] * slope[1]
        return -cp.fft.rfft2(carried) - FRICTION * square * swirl

    while turns.step():
        middle = swirl + 0.5 * PACE * change(swirl)
        swirl = swirl + PACE * change(middle)
        if turns.planted:
            cp.get_default_memory_pool().free_all_blocks()
