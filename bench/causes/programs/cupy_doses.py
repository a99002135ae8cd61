"""Doses of a drug tried on virtual patients in CuPy; the cause gives them to few, large blocks of threads.

Each thread follows a patient for two weeks. Blocks of 1,024 threads are eight blocks, on as many
multiprocessors. The fix has blocks of 64.
"""
# causes: unused_gpu
import cupy as cp
import numpy as np
from turns import Turns

PATIENTS, MINUTES, KEPT, LARGE, SMALL = 8192, 20160, 60, 1024, 64

follow = cp.RawKernel(
    r"""
struct Body { float gut, blood, tissue; };

__device__ Body change(Body b, float absorb, float top, float half, float into, float back) {
  const float lost = top * b.blood / (half + b.blood);
  const float exchange = into * b.blood - back * b.tissue;
  const float taken = absorb * b.gut * expf(-0.05f * b.blood);
  return {-taken, taken - lost - exchange, exchange};
}

__device__ Body add(Body a, float by, Body b) {
  return {a.gut + by * b.gut, a.blood + by * b.blood, a.tissue + by * b.tissue};
}

extern "C" __global__ void follow(const float* traits, float* levels, int patients, int minutes,
                                  int kept, float dose) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= patients) return;
  const float absorb = traits[i], top = traits[patients + i], half = traits[2 * patients + i];
  const float into = traits[3 * patients + i], back = traits[4 * patients + i];
  const float pause = 1.0f / 60;
  Body b = {0, 0, 0};
  for (int minute = 0; minute < minutes; ++minute) {
    if (minute % 720 == 0) b.gut += dose;
    const Body k1 = change(b, absorb, top, half, into, back);
    const Body k2 = change(add(b, pause / 2, k1), absorb, top, half, into, back);
    const Body k3 = change(add(b, pause / 2, k2), absorb, top, half, into, back);
    const Body k4 = change(add(b, pause, k3), absorb, top, half, into, back);
    b = add(add(add(add(b, pause / 6, k1), pause / 3, k2), pause / 3, k3), pause / 6, k4);
    if (minute % kept == 0) levels[(minute / kept) * patients + i] = b.blood;
  }
}
""",
    "follow",
)


def draw_traits() -> cp.ndarray:
    """Rates of each patient, spread around those of a typical one."""
    random = np.random.default_rng(0)
    typical = np.array([1.0, 2.0, 4.0, 0.3, 0.2], np.float32)[:, None]
    spread = np.exp(0.3 * random.standard_normal((5, PATIENTS), np.float32))
    return cp.asarray(typical * spread)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    traits = draw_traits()
    levels = cp.empty((MINUTES // KEPT, PATIENTS), cp.float32)
    sizes = np.int32(PATIENTS), np.int32(MINUTES), np.int32(KEPT)
    shares, bands = cp.asarray([5.0, 50.0, 95.0]), []
    while turns.step():
        threads = LARGE if turns.planted else SMALL
        dose = np.float32(10 + len(bands) % 5)
        follow((PATIENTS // threads,), (threads,), (traits, levels, *sizes, dose))
        bands.append(cp.percentile(levels, shares, axis=1))
