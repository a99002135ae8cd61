"""Waves on a membrane in CuPy, updated by slices of arrays; fix: one kernel for a time step."""
# causes: unfused_elementwise
import cupy as cp
from turns import Turns

SIZE, SWEEPS, PACE, LOSS = 4096, 10, 0.2, 0.001
SOURCE = """
const int x = i % n, y = i / n;
if (x == 0 || y == 0 || x == n - 1 || y == n - 1) { next = 0; }
else {
  const float bend = u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - 4 * u[i];
  next = (2 - loss) * u[i] - (1 - loss) * before + pace * bend;
}
"""


def move(u: cp.ndarray, before: cp.ndarray, after: cp.ndarray) -> None:
    """One time step of the wave equation."""
    bend = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    kept = (2 - LOSS) * u[1:-1, 1:-1] - (1 - LOSS) * before[1:-1, 1:-1]
    after[1:-1, 1:-1] = kept + PACE * bend


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    u = cp.random.default_rng(0).random((SIZE, SIZE), cp.float32)
    before, after = u.copy(), cp.zeros_like(u)
    kernel = cp.ElementwiseKernel(
        "raw float32 u, float32 before, int32 n, float32 pace, float32 loss",
        "float32 next", SOURCE, "move_wave",
    )  # fmt: skip
    while turns.step():
        for _ in range(SWEEPS):
            if turns.planted:
                move(u, before, after)
            else:
                kernel(u, before, SIZE, PACE, LOSS, after)
            before, u, after = u, after, before
