"""Radio bursts sought in CuPy; the cause copies each block of a telescope's data in the stream that searches it.

The fix copies the next block on a second stream, into a second buffer.
"""
# causes: exposed_copy
import cupy as cp
import cupyx
import numpy as np
from turns import Turns

CHANNELS, SAMPLES, TRIALS, WIDTHS = 1024, 1 << 19, 48, (1, 2, 4, 8, 16, 32)

sum_channels = cp.RawKernel(
    r"""
extern "C" __global__ void sum_channels(const unsigned char *block, const int *delays, float *sums,
                                        int channels, int samples) {
  const int sample = blockIdx.x * blockDim.x + threadIdx.x, trial = blockIdx.y;
  int sum = 0;
  for (int channel = 0; channel < channels; ++channel) {
    const int at = (sample + delays[trial * channels + channel]) & (samples - 1);
    sum += block[static_cast<size_t>(channel) * samples + at];
  }
  sums[static_cast<size_t>(trial) * samples + sample] = sum;
}
""",
    "sum_channels",
)


class Blocks:
    """Two buffers on the GPU, to which blocks of pinned memory are copied."""

    def __init__(self, recorded: list[np.ndarray]) -> None:
        self.recorded = recorded
        self.buffers = [cp.empty((CHANNELS, SAMPLES), cp.uint8) for _ in range(2)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.copied = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.searched = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.ahead = -1

    def copy(self, number: int, stream: cp.cuda.Stream) -> None:
        self.buffers[number % 2].set(self.recorded[number % len(self.recorded)], stream=stream)

    def take(self, number: int) -> cp.ndarray:
        """The block of this number on the GPU."""
        main = cp.cuda.get_current_stream()
        if self.ahead == number:
            main.wait_event(self.copied[number % 2])
        else:
            self.copy(number, main)
        return self.buffers[number % 2]

    def copy_ahead(self, number: int) -> None:
        """Copy this block beside the search of the one before it."""
        self.stream.wait_event(self.searched[number % 2])
        self.copy(number, self.stream)
        self.copied[number % 2].record(self.stream)
        self.ahead = number

    def release(self, number: int) -> None:
        self.searched[number % 2].record(cp.cuda.get_current_stream())


def find_peaks(sums: cp.ndarray) -> cp.ndarray:
    """The highest ratio of signal to noise of each trial, by widths of a burst."""
    mean, spread = sums.mean(1, keepdims=True), sums.std(1, keepdims=True)
    total = cp.cumsum((sums - mean) / spread, axis=1)
    peaks = [(total[:, w:] - total[:, :-w]).max(1) / np.float32(w**0.5) for w in WIDTHS]
    return cp.stack(peaks, 1)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    random = np.random.default_rng(0)
    recorded = [cupyx.empty_pinned((CHANNELS, SAMPLES), np.uint8) for _ in range(2)]
    for block in recorded:
        block[...] = random.integers(0, 256, block.shape, np.uint8)
    blocks = Blocks(recorded)
    frequencies = 1.2 + 0.3 * np.arange(CHANNELS) / CHANNELS
    delays = np.outer(np.arange(TRIALS), 400 * (frequencies**-2 - 1.5**-2))
    delays = cp.asarray(delays, cp.int32)
    sums = cp.empty((TRIALS, SAMPLES), cp.float32)
    sizes, number, found = (np.int32(CHANNELS), np.int32(SAMPLES)), 0, []
    while turns.step():
        block = blocks.take(number)
        if not turns.planted:
            blocks.copy_ahead(number + 1)
        sum_channels((SAMPLES // 256, TRIALS), (256,), (block, delays, sums, *sizes))
        blocks.release(number)
        found.append(float(find_peaks(sums).max()))
        number += 1
