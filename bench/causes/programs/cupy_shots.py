"""Shots of a seismic survey filtered in CuPy; the cause locks the memory of each shot for its copy, and unlocks it.

The fix locks that memory once (`hostRegister`).
"""
# causes: allocation, idle
import cupy as cp
import numpy as np
from cupy.cuda import runtime
from turns import Turns

SHOTS, TRACES, SAMPLES, SHARES = 3, 4096, 16_384, 8

gain = cp.ElementwiseKernel(
    "float32 x, float32 mean", "float32 y", "y = x * rsqrtf(mean + 1e-6f)", "gain"
)


def make_filter() -> cp.ndarray:
    """What is left of each wave: slow ones, which run along the ground, are cut."""
    waves = cp.abs(cp.fft.fftfreq(TRACES, 12.5)).astype(cp.float32)[:, None]
    frequencies = cp.fft.rfftfreq(SAMPLES, 0.002).astype(cp.float32)[None]
    speeds = frequencies / (waves + 1e-6)
    return 1 / (1 + cp.exp((1500 - speeds) / 100))


def filter_shot(shot: cp.ndarray, kept: cp.ndarray) -> cp.ndarray:
    """A shot with even loudness and without the waves along the ground."""
    power = cp.cumsum(shot * shot, axis=1)
    window = SAMPLES // 16
    mean = (power[:, window:] - power[:, :-window]) / window
    even = gain(shot[:, : SAMPLES - window], mean)
    for share in range(1, SHARES + 1):
        spectrum = cp.fft.rfft2(even, s=(TRACES, SAMPLES))
        clean = cp.fft.irfft2(spectrum * kept ** (share / SHARES), s=(TRACES, SAMPLES))
        even = clean[:, : SAMPLES - window].astype(cp.float32)
    return even


def lock(shot: np.ndarray) -> None:
    runtime.hostRegister(shot.ctypes.data, shot.nbytes, 0)


def unlock(shot: np.ndarray) -> None:
    runtime.hostUnregister(shot.ctypes.data)


def run(turns: Turns) -> None:
    turns.synchronize = runtime.deviceSynchronize
    random = np.random.default_rng(0)
    shots = [random.standard_normal((TRACES, SAMPLES), np.float32) for _ in range(SHOTS)]
    locked = [shot.copy() for shot in shots]
    for shot in locked:
        lock(shot)
    kept, device = make_filter(), cp.empty((TRACES, SAMPLES), cp.float32)
    stack, taken, loudest = cp.zeros((TRACES, SAMPLES - SAMPLES // 16), cp.float32), 0, []
    while turns.step():
        number = taken % SHOTS
        taken += 1
        if turns.planted:
            lock(shots[number])
            device.set(shots[number])
            cp.cuda.get_current_stream().synchronize()
            unlock(shots[number])
        else:
            device.set(locked[number])
        stack += filter_shot(device, kept)
        loudest.append(float(cp.abs(stack).max()))
