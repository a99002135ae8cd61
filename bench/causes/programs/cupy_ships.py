"""Ships tracked by a radar in CuPy; the cause filters them one by one, the fix all in a batch."""
# causes: tiny_kernels, host_bound
import cupy as cp
from turns import Turns

SHIPS, PULSES, RANGES, SCANS, TIME = 60, 2048, 4096, 24, 0.1


def compress(echoes: cp.ndarray, chirp: cp.ndarray) -> cp.ndarray:
    """The power of each range and speed."""
    matched = cp.fft.ifft(cp.fft.fft(echoes, axis=1) * chirp, axis=1)
    return cp.abs(cp.fft.fft(matched, axis=0)) ** 2


class Filter:
    """Kalman filters of place and speed on a plane; the first axes are ships."""

    def __init__(self) -> None:
        self.move = cp.eye(4, dtype=cp.float32)
        self.move[0, 2] = self.move[1, 3] = TIME
        self.look = cp.eye(2, 4, dtype=cp.float32)
        self.blur = 0.01 * cp.eye(4, dtype=cp.float32)
        self.error = 0.5 * cp.eye(2, dtype=cp.float32)

    def step(
        self, state: cp.ndarray, spread: cp.ndarray, seen: cp.ndarray
    ) -> tuple[cp.ndarray, cp.ndarray]:
        """The state (…, 4, 1) and its covariance (…, 4, 4) after a place (…, 2, 1) was seen."""
        state = self.move @ state
        spread = self.move @ spread @ self.move.T + self.blur
        inner = self.look @ spread @ self.look.T + self.error
        gain = spread @ self.look.T @ invert(inner)
        state = state + gain @ (seen - self.look @ state)
        return state, spread - gain @ self.look @ spread


def invert(pairs: cp.ndarray) -> cp.ndarray:
    """The inverses of matrices of two rows."""
    a, b, c, d = pairs[..., 0, 0], pairs[..., 0, 1], pairs[..., 1, 0], pairs[..., 1, 1]
    turned = cp.stack([d, -b, -c, a], -1).reshape(pairs.shape)
    return turned / (a * d - b * c)[..., None, None]


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    shape = (PULSES, RANGES)
    echoes = (cp.random.rand(*shape) + 1j * cp.random.rand(*shape)).astype(cp.complex64)
    chirp = cp.exp(1j * cp.arange(RANGES) ** 2 * 1e-4).astype(cp.complex64)
    kalman = Filter()
    states = cp.zeros((SHIPS, 4, 1), cp.float32)
    spreads = cp.tile(cp.eye(4, dtype=cp.float32), (SHIPS, 1, 1))
    detections = 0
    while turns.step():
        power = cp.zeros(shape, cp.float32)
        for _ in range(SCANS):
            power += compress(echoes, chirp)
        detections += int((power > 9 * power.mean()).sum())
        seen = power[:SHIPS, :2].reshape(SHIPS, 2, 1) / power.max()
        if not turns.planted:
            states, spreads = kalman.step(states, spreads, seen)
            continue
        for ship in range(SHIPS):
            states[ship], spreads[ship] = kalman.step(states[ship], spreads[ship], seen[ship])
