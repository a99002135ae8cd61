"""Waves in a basin (shallow water equations) in CuPy; the cause brings the heights to NumPy in each step to measure them.

The fix measures on the GPU and keeps the numbers there.
"""
# causes: pageable_copy, idle
import cupy as cp
import numpy as np
from turns import Turns

NX, NY = 2304, 1792
G, H0, DX, DT = 9.81, 10.0, 50.0, 1.0
SUBSTEPS = 240

velocity_kernel = cp.RawKernel(
    r"""
extern "C" __global__
void velocity(const float* h, float* u, float* v, int nx, int ny, float c, float drag) {
    int x = blockDim.x * blockIdx.x + threadIdx.x;
    int y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    u[i] = (u[i] - c * (h[i + 1] - h[i])) * drag;
    v[i] = (v[i] - c * (h[i + nx] - h[i])) * drag;
}
""",
    "velocity",
)

height_kernel = cp.RawKernel(
    r"""
extern "C" __global__
void height(float* h, const float* u, const float* v, int nx, int ny, float c) {
    int x = blockDim.x * blockIdx.x + threadIdx.x;
    int y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    h[i] -= c * (u[i] - u[i - 1] + v[i] - v[i - nx]);
}
""",
    "height",
)


class Basin:
    """Heights and velocities on a staggered grid."""

    def __init__(self):
        x = cp.linspace(-1, 1, NX, dtype=cp.float32)
        y = cp.linspace(-1, 1, NY, dtype=cp.float32)[:, None]
        self.h = cp.ascontiguousarray(cp.exp(-40 * (x**2 + y**2)))
        self.u = cp.zeros_like(self.h)
        self.v = cp.zeros_like(self.h)

    def advance(self, substeps):
        block = (32, 8)
        grid = ((NX + 31) // 32, (NY + 7) // 8)
        nx, ny = np.int32(NX), np.int32(NY)
        cu, ch, drag = np.float32(G * DT / DX), np.float32(H0 * DT / DX), np.float32(0.9999)
        for _ in range(substeps):
            velocity_kernel(grid, block, (self.h, self.u, self.v, nx, ny, cu, drag))
            height_kernel(grid, block, (self.h, self.u, self.v, nx, ny, ch))


def measure(h, xp):
    """The mean, the spread and the highest wave."""
    return xp.stack([h.mean(), h.std(), xp.abs(h).max()])


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    basin = Basin()
    history = []
    while turns.step():
        basin.advance(SUBSTEPS)
        if turns.planted:
            history.append(measure(basin.h.get(), np))
        else:
            history.append(measure(basin.h, cp))
    print(len(history), history[-1])
