"""Reaction and diffusion in CuPy; the cause writes the length of the time step into the kernel."""
# causes: compile
import random

import cupy as cp
from turns import Turns

SIZE, SWEEPS = 2048, 200
SOURCE = r"""
extern "C" __global__ void react(const float2 *old, float2 *next, int n, float given) {
  const float pace = PACE;
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int west = (x + n - 1) % n, east = (x + 1) % n;
  const int north = (y + n - 1) % n, south = (y + 1) % n;
  const float2 me = old[y * n + x];
  const float2 a = old[y * n + west], b = old[y * n + east];
  const float2 c = old[north * n + x], d = old[south * n + x];
  const float u = a.x + b.x + c.x + d.x - 4 * me.x, v = a.y + b.y + c.y + d.y - 4 * me.y;
  const float made = me.x * me.y * me.y;
  next[y * n + x].x = me.x + pace * (0.16f * u - made + 0.035f * (1 - me.x));
  next[y * n + x].y = me.y + pace * (0.08f * v + made - 0.1f * me.y);
}
"""


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    old = cp.random.default_rng(0).random((SIZE, SIZE, 2), cp.float32)
    new = cp.empty_like(old)
    general = cp.RawKernel(SOURCE.replace("PACE", "given"), "react")
    threads, blocks = (32, 8), (SIZE // 32, SIZE // 8)
    while turns.step():
        # Other numbers in each run: CuPy keeps compiled kernels in files.
        pace = random.uniform(0.5, 1.0)
        kernel = general
        if turns.planted:
            kernel = cp.RawKernel(SOURCE.replace("PACE", f"{pace:.9f}f"), "react")
        for _ in range(SWEEPS):
            kernel(blocks, threads, (old, new, cp.int32(SIZE), cp.float32(pace)))
            old, new = new, old
