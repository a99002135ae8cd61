"""A robot found on its map by a particle filter in CuPy; the cause draws the particles anew by NumPy.

The fix draws them on the GPU.
"""
# causes: idle, pageable_copy
import cupy as cp
import numpy as np
from turns import Turns

PARTICLES, BEAMS, REACH, MAP, NOISE = 400_000, 40, 120, 2048, 3.0

measure = cp.RawKernel(
    r"""
extern "C" __global__ void measure(const unsigned char* map, const float* places,
                                   const float* seen, float* scores, int particles) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= particles) return;
  const float x = places[i], y = places[particles + i], turn = places[2 * particles + i];
  float score = 0;
  for (int beam = 0; beam < BEAMS; ++beam) {
    float dx, dy;
    sincosf(turn + 6.2831853f * beam / BEAMS, &dy, &dx);
    int reach = 1;
    while (reach < REACH) {
      const int column = int(x + reach * dx) & (MAP - 1), row = int(y + reach * dy) & (MAP - 1);
      if (map[row * MAP + column]) break;
      ++reach;
    }
    const float error = (reach - seen[beam]) / 40;
    score -= error * error;
  }
  scores[i] = score / BEAMS;
}
""".replace("BEAMS", str(BEAMS)).replace("REACH", str(REACH)).replace("MAP", str(MAP)),
    "measure",
)


def draw_on_host(scores: cp.ndarray, random: np.random.Generator) -> cp.ndarray:
    """The numbers of the particles that stay, each as often as its weight says."""
    weights = np.exp(cp.asnumpy(scores).astype(np.float64))
    sums = np.cumsum(weights / weights.sum())
    points = (np.arange(PARTICLES) + random.random()) / PARTICLES
    return cp.asarray(np.searchsorted(sums, points).clip(0, PARTICLES - 1))


def draw_on_gpu(scores: cp.ndarray, random: np.random.Generator) -> cp.ndarray:
    """As draw_on_host."""
    weights = cp.exp(scores.astype(cp.float64))
    sums = cp.cumsum(weights / weights.sum())
    points = (cp.arange(PARTICLES) + random.random()) / PARTICLES
    return cp.searchsorted(sums, points).clip(0, PARTICLES - 1)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    random = np.random.default_rng(0)
    walls = (cp.random.random((MAP, MAP), dtype=cp.float32) < 0.004).astype(cp.uint8)
    seen = cp.random.random(BEAMS, dtype=cp.float32) * REACH
    places = cp.random.random((3, PARTICLES), dtype=cp.float32) * MAP
    scores = cp.empty(PARTICLES, cp.float32)
    blocks = -(-PARTICLES // 256)
    path = []
    while turns.step():
        measure((blocks,), (256,), (walls, places, seen, scores, np.int32(PARTICLES)))
        draw = draw_on_host if turns.planted else draw_on_gpu
        places = places[:, draw(scores, random)]
        places += NOISE * cp.random.standard_normal(places.shape, dtype=cp.float32)
        path.append(places.mean(1))
