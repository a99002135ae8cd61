"""Diffusing particles in CuPy; the cause draws their kicks with NumPy and copies them."""
# causes: idle, pageable_copy
import cupy as cp
import numpy as np
from turns import Turns

PARTICLES, MOVES = 1 << 20, 60


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    on_host, on_device = np.random.default_rng(0), cp.random.default_rng(0)
    places = cp.zeros((PARTICLES, 3), cp.float32)
    field = cp.linspace(-1, 1, 256, dtype=cp.float32)
    while turns.step():
        if turns.planted:
            kicks = cp.asarray(on_host.standard_normal((PARTICLES, 3), np.float32))
        else:
            kicks = on_device.standard_normal((PARTICLES, 3), cp.float32)
        places += 0.01 * kicks
        for _ in range(MOVES):
            drift = field[(cp.abs(cp.sin(places)) * 255).astype(cp.int32)]
            places -= 0.001 * drift * cp.exp(-places * places)
