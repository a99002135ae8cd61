"""Pictures of the ground by a radar on a plane (backprojection) in CuPy; the cause copies each pulse's place and aim.

It makes two small arrays on the GPU for each pulse. The fix copies the places and the aims of all
pulses at once.
"""
# causes: many_small_copies, host_bound
import cupy as cp
import numpy as np
from turns import Turns

PULSES, BINS, SIDE, PIXEL, NEAR, SPACING, WAVE = 650, 4096, 2560, 0.5, 1500.0, 0.5, 0.24

add_pulse = cp.RawKernel(
    r"""
extern "C" __global__ void add_pulse(const float2* echo, const float* place, const float* aim,
                                     float2* picture, int side, int bins, float pixel,
                                     float near_range, float spacing, float wave) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= side || y >= side) return;
  const float dx = (x - side / 2) * pixel - place[0], dy = (y - side / 2) * pixel - place[1];
  const float range = sqrtf(dx * dx + dy * dy + place[2] * place[2]);
  const float facing = (dx * aim[0] + dy * aim[1] - place[2] * aim[2]) / range;
  const float bin = (range - near_range) / spacing;
  const int i = int(bin);
  if (bin < 0 || i >= bins - 1) return;
  const float part = bin - i, gain = expf(-20 * (1 - facing)), cycles = 2 * range / wave;
  const float real = echo[i].x + part * (echo[i + 1].x - echo[i].x);
  const float imaginary = echo[i].y + part * (echo[i + 1].y - echo[i].y);
  float sine, cosine;
  sincospif(2 * (cycles - floorf(cycles)), &sine, &cosine);
  float2 sum = picture[y * side + x];
  sum.x += gain * (real * cosine - imaginary * sine);
  sum.y += gain * (real * sine + imaginary * cosine);
  picture[y * side + x] = sum;
}
""",
    "add_pulse",
)


def fly(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where the plane is at each pulse, and which way its antenna looks."""
    places = np.zeros((PULSES, 3), np.float32)
    places[:, 0] = np.linspace(-200, 200, PULSES)
    places[:, 1:] = (-1800, 1200)
    places += 0.05 * random.standard_normal(places.shape, np.float32)
    aims = -places / np.linalg.norm(places, axis=1, keepdims=True)
    return places, aims


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    random, numbers = np.random.default_rng(0), cp.random.default_rng(0)
    raw = numbers.standard_normal((PULSES, BINS), cp.float32).astype(cp.complex64)
    chirp = cp.exp(1j * cp.linspace(0, 900, BINS) ** 2 / 300).astype(cp.complex64)
    picture = cp.zeros((SIDE, SIDE), cp.complex64)
    grid, block = (SIDE // 32, SIDE // 8), (32, 8)
    sizes = np.int32(SIDE), np.int32(BINS), *np.float32([PIXEL, NEAR, SPACING, WAVE])
    while turns.step():
        echoes = cp.fft.ifft(cp.fft.fft(raw, axis=1) * chirp, axis=1)
        places, aims = fly(random)
        if not turns.planted:
            places, aims = cp.asarray(places), cp.asarray(aims)
        for pulse in range(PULSES):
            place, aim = cp.asarray(places[pulse]), cp.asarray(aims[pulse])
            add_pulse(grid, block, (echoes[pulse], place, aim, picture, *sizes))
