"""X-ray photons followed through a body in CuPy; the cause counts what reaches the detector by NumPy.

It brings the pixel and the weight of each photon to the host. The fix counts them by `cupy.bincount`.
"""
# causes: idle, pageable_copy
import cupy as cp
import numpy as np
from turns import Turns

SIDE, DETECTOR, PHOTONS, SAMPLES, VIEWS = 160, 1024, 2_097_152, 3600, 90

follow = cp.RawKernel(
    r"""
__device__ float draw(unsigned int* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return (*state >> 8) * (1.0f / 16777216.0f);
}

extern "C" __global__ void follow(
    const float* body, const float angle, const unsigned int seed, const int photons,
    int* pixels, float* weights) {
  const int photon = blockIdx.x * blockDim.x + threadIdx.x;
  if (photon >= photons) return;
  unsigned int state = (photon + 1) * 2654435761u ^ seed;
  for (int i = 0; i < 4; ++i) draw(&state);
  const float u = draw(&state) - 0.5f, v = draw(&state) - 0.5f;
  const float c = cosf(angle), s = sinf(angle);
  const float far = 1.0f * SIDE, span = 1.6f * SIDE;
  float x = SIDE / 2 - far * c, y = SIDE / 2 - far * s, z = SIDE / 2;
  const float dx = (2 * far * c - span * u * s) / SAMPLES;
  const float dy = (2 * far * s + span * u * c) / SAMPLES;
  const float dz = span * v / SAMPLES;
  float depth = 0;
  for (int i = 0; i < SAMPLES; ++i) {
    const int ix = min(max(int(x), 0), SIDE - 1);
    const int iy = min(max(int(y), 0), SIDE - 1);
    const int iz = min(max(int(z), 0), SIDE - 1);
    depth += body[(iz * SIDE + iy) * SIDE + ix];
    x += dx;
    y += dy;
    z += dz;
  }
  const int column = min(int((u + 0.5f) * DETECTOR), DETECTOR - 1);
  const int row = min(int((v + 0.5f) * DETECTOR), DETECTOR - 1);
  pixels[photon] = row * DETECTOR + column;
  weights[photon] = expf(-depth * sqrtf(dx * dx + dy * dy + dz * dz));
}
""".replace("SIDE", str(SIDE)).replace("DETECTOR", str(DETECTOR)).replace("SAMPLES", str(SAMPLES)),
    "follow",
)


def make_body() -> cp.ndarray:
    """How much each voxel of a ball with bones absorbs."""
    place = cp.linspace(-1, 1, SIDE, dtype=cp.float32)
    z, y, x = place[:, None, None], place[None, :, None], place[None, None, :]
    ball = (x**2 + y**2 + z**2 < 0.7).astype(cp.float32)
    bones = (cp.sin(12 * x) * cp.sin(9 * y) > 0.8).astype(cp.float32)
    return cp.ascontiguousarray(0.01 * ball * (1 + 2 * bones))


def count_with_numpy(pixels: cp.ndarray, weights: cp.ndarray) -> cp.ndarray:
    counts = np.bincount(cp.asnumpy(pixels), cp.asnumpy(weights), DETECTOR**2)
    return cp.asarray(counts.astype(np.float32))


def count_with_cupy(pixels: cp.ndarray, weights: cp.ndarray) -> cp.ndarray:
    return cp.bincount(pixels, weights, DETECTOR**2).astype(cp.float32)


def sharpen(counts: cp.ndarray, ramp: cp.ndarray) -> cp.ndarray:
    """The filtered logarithm of a view."""
    depth = -cp.log(cp.maximum(counts.reshape(DETECTOR, DETECTOR), 1e-3))
    return cp.fft.irfft(cp.fft.rfft(depth, axis=1) * ramp, DETECTOR, axis=1)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    body = make_body()
    ramp = cp.abs(cp.fft.rfftfreq(DETECTOR)).astype(cp.float32)
    pixels = cp.empty(PHOTONS, cp.int32)
    weights = cp.empty(PHOTONS, cp.float32)
    total = cp.zeros((DETECTOR, DETECTOR), cp.float32)
    view = 0
    while turns.step():
        angle = np.float32(2 * np.pi * (view % VIEWS) / VIEWS)
        view += 1
        arguments = (body, angle, np.uint32(view), np.int32(PHOTONS), pixels, weights)
        follow((PHOTONS // 256,), (256,), arguments)
        count = count_with_numpy if turns.planted else count_with_cupy
        total += sharpen(count(pixels, weights), ramp)
