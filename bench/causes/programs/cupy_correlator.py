"""A correlator of radio antennas in CuPy; the cause takes the voltages from ordinary memory.

The fix has them in pinned memory, and goes on while they are copied.
"""
# causes: pageable_copy
import cupy as cp
import cupyx
import numpy as np
from turns import Turns

ANTENNAS, CHANNELS, SPECTRA, TAPS, FRAMES = 48, 1024, 1536, 4, 3
SHAPE = (ANTENNAS, SPECTRA, CHANNELS, 2)

to_complex = cp.ElementwiseKernel(
    "int8 real, int8 imaginary", "complex64 z", "z = complex<float>(real, imaginary)", "to_complex"
)


def draw_frames() -> list[np.ndarray]:
    """Voltages of a frame of time each, as the digitizers send them."""
    random = np.random.default_rng(0)
    return [random.integers(-100, 100, SHAPE, np.int8) for _ in range(FRAMES)]


def pin(frame: np.ndarray) -> np.ndarray:
    pinned = cupyx.empty_pinned(frame.shape, frame.dtype)
    pinned[...] = frame
    return pinned


def channelize(voltages: cp.ndarray, window: cp.ndarray) -> cp.ndarray:
    """Spectra by a polyphase filter: (channel, antenna, spectrum)."""
    samples = to_complex(voltages[..., 0], voltages[..., 1])
    whole = SPECTRA - TAPS + 1
    filtered = window[0] * samples[:, :whole]
    for tap in range(1, TAPS):
        filtered += window[tap] * samples[:, tap : tap + whole]
    return cp.ascontiguousarray(cp.fft.fft(filtered, axis=2).transpose(2, 0, 1))


def correlate(spectra: cp.ndarray) -> cp.ndarray:
    """The product of each two antennas, summed over the frame."""
    return cp.matmul(spectra, spectra.conj().transpose(0, 2, 1))


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    frames = draw_frames()
    pinned = [pin(frame) for frame in frames]
    window = cp.asarray(np.hamming(TAPS * CHANNELS).reshape(TAPS, CHANNELS), cp.float32)
    voltages = cp.empty(SHAPE, cp.int8)
    visible = cp.zeros((CHANNELS, ANTENNAS, ANTENNAS), cp.complex64)
    taken = 0
    while turns.step():
        if turns.planted:
            voltages.set(frames[taken % FRAMES])
        else:
            voltages.set(pinned[taken % FRAMES], stream=cp.cuda.get_current_stream())
        visible += correlate(channelize(voltages, window))
        taken += 1
