"""Energies of an electron in a crystal by Lanczos's method in CuPy; the cause makes each product a Python number.

The fix leaves them on the GPU until all of them are needed.
"""
# causes: synchronization
import cupy as cp
import numpy as np
from turns import Turns

SIDE, ITERATIONS = 192, 60

apply = cp.RawKernel(
    r"""
extern "C" __global__ void apply(const float* wave, const float* potential, float* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
  if (x >= SIDE) return;
  const int left = (x + SIDE - 1) % SIDE, right = (x + 1) % SIDE;
  const int up = (y + SIDE - 1) % SIDE, down = (y + 1) % SIDE;
  const int front = (z + SIDE - 1) % SIDE, back = (z + 1) % SIDE;
  const int here = (z * SIDE + y) * SIDE + x;
  const float sum = wave[(z * SIDE + y) * SIDE + left] + wave[(z * SIDE + y) * SIDE + right] +
                    wave[(z * SIDE + up) * SIDE + x] + wave[(z * SIDE + down) * SIDE + x] +
                    wave[(front * SIDE + y) * SIDE + x] + wave[(back * SIDE + y) * SIDE + x];
  out[here] = (6 + potential[here]) * wave[here] - sum;
}
""".replace("SIDE", str(SIDE)),
    "apply",
)


def fetch_all(numbers: list[cp.ndarray]) -> np.ndarray:
    return cp.stack(numbers).get()


def find_energies(potential: cp.ndarray, *, reads_products: bool) -> np.ndarray:
    """The eigenvalues of the matrix of three diagonals that the iterations make."""
    read = float if reads_products else cp.asarray
    fetch = np.array if reads_products else fetch_all
    wave = cp.random.standard_normal(SIDE**3, dtype=cp.float32)
    wave /= cp.linalg.norm(wave)
    before, beta = cp.zeros_like(wave), read(cp.zeros((), cp.float32))
    alphas, betas = [], []
    for _ in range(ITERATIONS):
        out = cp.empty_like(wave)
        apply((1, SIDE, SIDE), (SIDE,), (wave, potential, out))
        out -= beta * before
        alpha = read(cp.vdot(wave, out))
        out -= alpha * wave
        beta = read(cp.linalg.norm(out))
        before, wave = wave, out / beta
        alphas.append(alpha)
        betas.append(beta)
    diagonal, beside = fetch(alphas), fetch(betas[:-1])
    return np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    potential = cp.random.random(SIDE**3, dtype=cp.float32)
    spectra = []
    while turns.step():
        spectra.append(find_energies(potential, reads_products=turns.planted))
