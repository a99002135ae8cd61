"""Two metals of an alloy that part (Cahn and Hilliard), in CuPy; the cause saves each picture with `savez_compressed`.

The fix saves it with `savez`.
"""
# causes: idle
import tempfile
from pathlib import Path

import cupy as cp
from turns import Turns

SIZE, MOMENTS, PACE, EDGE, EACH, FILES = 2048, 40, 0.5, 1.0, 4, 8


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    cp.random.seed(0)
    metal = 0.1 * cp.random.standard_normal((SIZE, SIZE), dtype=cp.float32)
    rows, columns = cp.fft.fftfreq(SIZE)[:, None], cp.fft.rfftfreq(SIZE)
    waves = (4 * cp.pi**2 * (rows**2 + columns**2)).astype(cp.float32)
    damped = 1 + PACE * EDGE * waves**2
    spectrum, moved = cp.fft.rfft2(metal), PACE * waves
    steps = 0
    with tempfile.TemporaryDirectory() as folder:
        while turns.step():
            for _ in range(MOMENTS):
                force = cp.fft.rfft2(metal * metal * metal - metal)
                spectrum = (spectrum - moved * force) / damped
                metal = cp.fft.irfft2(spectrum, metal.shape)
            save = cp.savez_compressed if turns.planted else cp.savez
            save(Path(folder) / f"{steps % FILES}.npz", metal=metal[::EACH, ::EACH])
            steps += 1
