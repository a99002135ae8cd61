"""Speckle of an X-ray camera in CuPy; the cause uploads frames in the stream that computes.

The frames lie in pinned memory. The fix uploads the next batch in a second stream meanwhile.
"""

# causes: exposed_copy
import cupy as cp
import cupyx
import numpy as np
from turns import Turns

BATCHES, FRAMES, SIZE = 3, 64, 1536
SHAPE = (FRAMES, SIZE, SIZE)


def draw_batches() -> list[np.ndarray]:
    """Counts of photons in pinned memory."""
    counts = np.random.default_rng(0).poisson(9, (SIZE, SIZE)).astype(np.uint16)
    batches = []
    for _ in range(BATCHES):
        batch = cupyx.empty_pinned(SHAPE, np.uint16)
        for frame in batch:
            counts = np.roll(counts, 37, axis=1)
            frame[:] = counts
        batches.append(batch)
    return batches


class Uploads:
    """Two buffers on the GPU that take batches in turns."""

    def __init__(self, batches: list[np.ndarray]) -> None:
        self.batches, self.ahead = batches, -1
        self.buffers = [cp.zeros(SHAPE, cp.uint16) for _ in range(2)]
        self.compute = cp.cuda.get_current_stream()
        self.copies = cp.cuda.Stream(non_blocking=True)
        self.ready, self.used = (cp.cuda.Event(disable_timing=True) for _ in range(2))

    def take_now(self, number: int) -> cp.ndarray:
        self.ahead = -1
        return self._send(number, self.compute)

    def take_ahead(self, number: int) -> cp.ndarray:
        if self.ahead != number:
            self._send_ahead(number)
        self.compute.wait_event(self.ready)
        self._send_ahead(number + 1)
        return self.buffers[number % 2]

    def _send_ahead(self, number: int) -> None:
        self.used.record(self.compute)
        self.copies.wait_event(self.used)
        self._send(number, self.copies)
        self.ready.record(self.copies)
        self.ahead = number

    def _send(self, number: int, stream: cp.cuda.Stream) -> cp.ndarray:
        buffer = self.buffers[number % 2]
        buffer.set(self.batches[number % BATCHES], stream=stream)
        return buffer


def correlate(frames: cp.ndarray, dark: cp.ndarray, gain: cp.ndarray) -> tuple[cp.ndarray, ...]:
    """The mean power spectrum of the frames, and the contrast of each pixel."""
    light = (frames - dark) * gain
    contrast = cp.square(light).mean(0) / cp.square(light.mean(0)) - 1
    spectrum = cp.fft.rfft2(light)
    return cp.square(cp.abs(spectrum)).mean(0), contrast


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    uploads, number = Uploads(draw_batches()), 0
    dark = cp.full((SIZE, SIZE), 2, cp.float32)
    gain = cp.linspace(0.9, 1.1, SIZE, dtype=cp.float32)
    while turns.step():
        take = uploads.take_now if turns.planted else uploads.take_ahead
        correlate(take(number), dark, gain)
        number += 1
