"""Holograms of cells brought into focus in CuPy; the cause unwraps their phase by NumPy, the fix by CuPy."""
# causes: idle, pageable_copy
import cupy as cp
import numpy as np
from turns import Turns

SIZE, SIDE, DEPTHS, HOLOGRAMS, CELL = 1024, 512, 384, 4, 256


def make_transfers() -> cp.ndarray:
    """What light does to a spectrum over each depth, of shape (DEPTHS, SIDE, SIDE)."""
    frequencies = cp.fft.fftfreq(SIDE).astype(cp.float32)
    squares = frequencies[:, None] ** 2 + frequencies[None] ** 2
    depths = cp.linspace(-40, 40, DEPTHS, dtype=cp.float32)[:, None, None]
    return cp.exp(1j * depths * squares).astype(cp.complex64)


def focus(hologram: cp.ndarray, transfers: cp.ndarray) -> cp.ndarray:
    """The field of a hologram at the depth where it is sharpest."""
    spectrum = cp.fft.fft2(hologram)
    side_band = cp.fft.ifftshift(spectrum[:SIDE, SIDE:])
    fields = cp.fft.ifft2(side_band * transfers)
    sharpness = cp.abs(fields).var((1, 2))
    return cp.take(fields, cp.argmax(sharpness), axis=0)


def unwrap_on_host(phase: cp.ndarray) -> cp.ndarray:
    lines = np.unwrap(cp.asnumpy(phase), axis=1)
    return cp.asarray(np.unwrap(lines, axis=0))


def unwrap_on_gpu(phase: cp.ndarray) -> cp.ndarray:
    return cp.unwrap(cp.unwrap(phase, axis=1), axis=0)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    camera = cp.random.random((16, SIZE, SIZE), dtype=cp.float32)
    transfers, frames, masses = make_transfers(), 0, []
    while turns.step():
        for _ in range(HOLOGRAMS):
            field = focus(camera[frames % len(camera)], transfers)
            frames += 1
            phase = cp.angle(field[:CELL, :CELL])
            unwrap = unwrap_on_host if turns.planted else unwrap_on_gpu
            smooth = unwrap(phase)
            masses.append((smooth - cp.median(smooth)).sum())
