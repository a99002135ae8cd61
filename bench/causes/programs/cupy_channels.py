"""Channels of a radio telescope in CuPy; the cause measures each channel by one block of threads.

The fix gives each channel 64 blocks. The cause lies inside of a kernel.
"""
# causes: unused_gpu
import cupy as cp
from turns import Turns

CHANNELS, SAMPLES, PIECES, TIMES = 8, 1 << 23, 64, 1024

MEASURE = cp.RawKernel(
    """
extern "C" __global__ void measure(const float* waves, float* sums, long long samples) {
  const float* mine = waves + blockIdx.y * samples;
  float sum = 0, squares = 0;
  const long long all = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < samples; i += all) {
    sum += mine[i];
    squares += mine[i] * mine[i];
  }
  atomicAdd(sums + 2 * blockIdx.y, sum);
  atomicAdd(sums + 2 * blockIdx.y + 1, squares);
}
""",
    "measure",
)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    waves = cp.random.default_rng(0).standard_normal((CHANNELS, SAMPLES), cp.float32)
    power = cp.zeros((CHANNELS, TIMES // 2 + 1), cp.float32)
    while turns.step():
        sums = cp.zeros((CHANNELS, 2), cp.float32)
        pieces = 1 if turns.planted else PIECES
        MEASURE((pieces, CHANNELS), (256,), (waves, sums, cp.int64(SAMPLES)))
        means = sums[:, :1] / SAMPLES
        scales = cp.sqrt(sums[:, 1:] / SAMPLES - means**2)
        clean = ((waves - means) / scales).clip(-5, 5)
        spectra = cp.fft.rfft(clean.reshape(CHANNELS, -1, TIMES), axis=-1)
        power = 0.9 * power + 0.1 * (spectra.real**2 + spectra.imag**2).mean(1)
