"""Adaptive beams of microphones in CuPy; the cause solves one frequency after the other.

The fix solves all frequencies by one call, which runs batched kernels.
"""

# causes: tiny_kernels, host_bound
import cupy as cp
from turns import Turns

BANDS, MICROPHONES, DIRECTIONS, FRAMES, LOADED = 64, 48, 128, 16384, 0.01


def draw_sound() -> cp.ndarray:
    """Short-time spectra of the microphones: (bands, microphones, frames)."""
    shape = (BANDS, MICROPHONES, FRAMES)
    real, imaginary = (cp.random.standard_normal(shape, dtype=cp.float32) for _ in range(2))
    return (real + 1j * imaginary).astype(cp.complex64)


def make_steering() -> cp.ndarray:
    """The phases of a plane wave from each direction: (bands, microphones, directions)."""
    places = cp.linspace(-0.5, 0.5, MICROPHONES)
    sines = cp.sin(cp.linspace(-1.5, 1.5, DIRECTIONS))
    waves = cp.linspace(1, 40, BANDS)
    phases = waves[:, None, None] * places[:, None] * sines
    return cp.exp(1j * phases).astype(cp.complex64)


def estimate_covariance(sound: cp.ndarray) -> cp.ndarray:
    covariance = sound @ sound.conj().transpose(0, 2, 1) / FRAMES
    return covariance + LOADED * cp.eye(MICROPHONES, dtype=cp.complex64)


def solve_each(covariance: cp.ndarray, steering: cp.ndarray) -> cp.ndarray:
    pairs = zip(covariance, steering, strict=True)
    return cp.stack([cp.linalg.solve(matrix, waves) for matrix, waves in pairs])


def form_beams(solved: cp.ndarray, steering: cp.ndarray, sound: cp.ndarray) -> cp.ndarray:
    """The power of each direction's beam in each frame."""
    gain = (steering.conj() * solved).sum(1, keepdims=True)
    weights = solved / gain
    beams = weights.conj().transpose(0, 2, 1) @ sound
    return cp.square(cp.abs(beams)).mean(0)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    sound, steering = draw_sound(), make_steering()
    while turns.step():
        covariance = estimate_covariance(sound)
        solve = solve_each if turns.planted else cp.linalg.solve
        form_beams(solve(covariance, steering), steering, sound)
