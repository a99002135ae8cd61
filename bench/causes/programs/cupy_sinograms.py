"""Slices of a tomograph in CuPy; the cause copies them from NumPy's memory, the fix from pinned memory."""
# causes: pageable_copy
import cupy as cp
import cupyx
import numpy as np
from turns import Turns

ANGLES, WIDTH, SLICES, SIDE = 1440, 1024, 16, 640

project = cp.RawKernel(
    r"""
extern "C" __global__ void project(const float *rays, float *slice, int angles, int width, int side) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int a = 0; a < angles; ++a) {
    float s, c;
    __sincosf(3.14159265f * a / angles, &s, &c);
    const float at = width / 2 + c * (x - side / 2) + s * (y - side / 2);
    const int left = min(max(static_cast<int>(at), 0), width - 2);
    const float *row = rays + a * width + left;
    sum += row[0] + (at - left) * (row[1] - row[0]);
  }
  slice[y * side + x] = sum;
}
""",
    "project",
)


def reconstruct(rays: cp.ndarray, ramp: cp.ndarray, out: cp.ndarray) -> None:
    """Filter the rays of each angle, and add them along their lines."""
    filtered = cp.fft.irfft(cp.fft.rfft(rays, axis=1) * ramp, WIDTH, axis=1)
    filtered = filtered.astype(cp.float32)
    grid, threads = (SIDE // 32, SIDE // 8), (32, 8)
    sizes = (np.int32(ANGLES), np.int32(WIDTH), np.int32(SIDE))
    project(grid, threads, (filtered, out, *sizes))


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    taken = np.random.default_rng(0).random((SLICES, ANGLES, WIDTH), np.float32)
    pinned = cupyx.empty_pinned(taken.shape, np.float32)
    pinned[:] = taken
    rays = cp.empty(taken.shape, cp.float32)
    slices = cp.empty((SLICES, SIDE, SIDE), cp.float32)
    ramp = cp.arange(WIDTH // 2 + 1, dtype=cp.float32)[None]
    while turns.step():
        rays.set(taken if turns.planted else pinned)
        for number in range(SLICES):
            reconstruct(rays[number], ramp, slices[number])
        float(slices.max())
