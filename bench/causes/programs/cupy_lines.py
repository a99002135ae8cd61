"""Volumes seen by ultrasound in CuPy; the cause filters the line of each sensor by itself, the fix all at once."""
# causes: tiny_kernels, host_bound
import cupy as cp
import numpy as np
from turns import Turns

SENSORS, SAMPLES, SIDE = 128, 4096, 192

form = cp.RawKernel(
    r"""
#include <cupy/complex.cuh>
extern "C" __global__ void form(const complex<float>* lines, float* volume) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
  if (x >= SIDE) return;
  const float px = 0.2f * (x - SIDE / 2), py = 0.2f * (y - SIDE / 2), pz = 10 + 0.2f * z;
  complex<float> sum(0, 0);
  for (int sensor = 0; sensor < SENSORS; ++sensor) {
    const float dx = px - 2.4f * (sensor % 16 - 8), dy = py - 4.8f * (sensor / 16 - 4);
    const float way = pz + sqrtf(dx * dx + dy * dy + pz * pz);
    const int sample = min(int(25 * way), SAMPLES - 1);
    sum += lines[sensor * SAMPLES + sample];
  }
  volume[(z * SIDE + y) * SIDE + x] = abs(sum);
}
""".replace("SIDE", str(SIDE)).replace("SENSORS", str(SENSORS)).replace("SAMPLES", str(SAMPLES)),
    "form",
)


def filter_lines(lines: cp.ndarray, band: cp.ndarray) -> cp.ndarray:
    """The analytic signal of lines, within a band."""
    spectra = cp.fft.fft(lines) * band
    spectra[..., SAMPLES // 2 :] = 0
    return cp.fft.ifft(spectra)


def filter_one_by_one(lines: cp.ndarray, band: cp.ndarray) -> cp.ndarray:
    filtered = cp.empty((SENSORS, SAMPLES), cp.complex64)
    for sensor, line in enumerate(lines):
        filtered[sensor] = filter_lines(line, band)
    return filtered


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    shots = cp.random.standard_normal((8, SENSORS, SAMPLES), dtype=cp.float32)
    frequencies = cp.arange(SAMPLES, dtype=cp.float32) / SAMPLES
    band = cp.exp(-(((frequencies - 0.2) / 0.05) ** 2)).astype(cp.complex64)
    volume, steps, brightest = cp.empty((SIDE, SIDE, SIDE), cp.float32), 0, []
    while turns.step():
        lines = shots[steps % len(shots)]
        steps += 1
        filtered = (filter_one_by_one if turns.planted else filter_lines)(lines, band)
        form((1, SIDE, SIDE), (SIDE,), (filtered, volume))
        brightest.append(np.float32(20) * cp.log10(volume.max()))
