"""A heat equation in CuPy; the cause reads the residual after each sweep."""
# causes: synchronization
import cupy
from turns import Turns


def run(turns: Turns) -> None:
    turns.synchronize = cupy.cuda.runtime.deviceSynchronize
    grid = cupy.random.rand(4096, 4096, dtype=cupy.float32)
    sweep = cupy.ElementwiseKernel(
        "raw float32 old, int32 n", "float32 next",
        """
        int x = i % n, y = i / n;
        int left = x ? i - 1 : i, right = x < n - 1 ? i + 1 : i;
        int up = y ? i - n : i, down = y < n - 1 ? i + n : i;
        next = 0.25f * (old[left] + old[right] + old[up] + old[down]);
        """,
        "sweep",
    )  # fmt: skip
    other = grid.copy()
    while turns.step():
        for _ in range(20):
            sweep(grid, 4096, other)
            residual = cupy.abs(other - grid).max()
            if turns.planted:
                float(residual)
            grid, other = other, grid
        float(residual)
