"""Electrons in a magnetic trap in CuPy, pushed by Boris's rotation; the cause writes the push as some eighty array operations.

The fix is one ElementwiseKernel that moves a particle in registers.
"""

# causes: unfused_elementwise
import cupy as cp
from turns import Turns

PARTICLES, PUSHES, CELLS, LENGTH = 1 << 23, 4, 48, 6.2831853
STEP, HALF = 0.02, 0.01

PUSH = cp.ElementwiseKernel(
    "float32 step, float32 half_step, float32 length",
    "float32 x, float32 y, float32 z, float32 vx, float32 vy, float32 vz",
    """
    float ex = 0.2f * sinf(x), ey = 0.2f * sinf(y), ez = 0.1f * sinf(z);
    float tx = half_step * 0.3f * cosf(y), ty = half_step * 0.3f * cosf(z);
    float tz = half_step * (1.0f + 0.2f * cosf(x));
    float scale = 2.0f / (1.0f + tx * tx + ty * ty + tz * tz);
    float ux = vx + half_step * ex, uy = vy + half_step * ey, uz = vz + half_step * ez;
    float wx = ux + uy * tz - uz * ty;
    float wy = uy + uz * tx - ux * tz;
    float wz = uz + ux * ty - uy * tx;
    vx = ux + scale * (wy * tz - wz * ty) + half_step * ex;
    vy = uy + scale * (wz * tx - wx * tz) + half_step * ey;
    vz = uz + scale * (wx * ty - wy * tx) + half_step * ez;
    x += step * vx; x -= length * floorf(x / length);
    y += step * vy; y -= length * floorf(y / length);
    z += step * vz; z -= length * floorf(z / length);
    """,
    "push_boris",
)


def push_by_arrays(places: cp.ndarray, speeds: cp.ndarray) -> None:
    """Move the particles by one step, in place."""
    x, y, z = places
    ex, ey, ez = 0.2 * cp.sin(x), 0.2 * cp.sin(y), 0.1 * cp.sin(z)
    tx, ty, tz = HALF * 0.3 * cp.cos(y), HALF * 0.3 * cp.cos(z), HALF * (1 + 0.2 * cp.cos(x))
    scale = 2 / (1 + tx * tx + ty * ty + tz * tz)
    ux, uy, uz = speeds[0] + HALF * ex, speeds[1] + HALF * ey, speeds[2] + HALF * ez
    wx = ux + uy * tz - uz * ty
    wy = uy + uz * tx - ux * tz
    wz = uz + ux * ty - uy * tx
    speeds[0] = ux + scale * (wy * tz - wz * ty) + HALF * ex
    speeds[1] = uy + scale * (wz * tx - wx * tz) + HALF * ey
    speeds[2] = uz + scale * (wx * ty - wy * tx) + HALF * ez
    places += STEP * speeds
    places -= LENGTH * cp.floor(places / LENGTH)


def push_by_kernel(places: cp.ndarray, speeds: cp.ndarray) -> None:
    """As push_by_arrays."""
    PUSH(STEP, HALF, LENGTH, *places, *speeds)


def add_charge(places: cp.ndarray, charge: cp.ndarray, one: cp.ndarray) -> None:
    """Count the particles of each cell."""
    x, y, z = cp.minimum((places * (CELLS / LENGTH)).astype(cp.int32), CELLS - 1)
    cp.add.at(charge, (x * CELLS + y) * CELLS + z, one)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    places = LENGTH * cp.random.random((3, PARTICLES), dtype=cp.float32)
    speeds = cp.random.standard_normal((3, PARTICLES), dtype=cp.float32)
    charge, one = cp.zeros(CELLS**3, cp.float32), cp.ones((), cp.float32)
    while turns.step():
        push = push_by_arrays if turns.planted else push_by_kernel
        for _ in range(PUSHES):
            push(places, speeds)
            charge.fill(0)
            add_charge(places, charge, one)
