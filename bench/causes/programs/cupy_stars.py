"""Stars measured in frames of a telescope, in CuPy; the cause labels and measures them by SciPy.

The fix labels them by cupyx and adds up their light on the GPU.
"""
# causes: idle, pageable_copy
import cupy as cp
import numpy as np
from cupyx.scipy import ndimage as gpu_images
from scipy import ndimage as host_images
from turns import Turns

SIZE, FRAMES, STARS, SIGMAS, SMOOTHED = 1280, 12, 1500, 5.0, 4


def draw_frames() -> list[cp.ndarray]:
    """Frames with the same noise level and sky, each with its own stars."""
    frames = []
    for _ in range(FRAMES):
        light = cp.zeros((SIZE, SIZE), cp.float32)
        rows, columns = cp.random.randint(0, SIZE, (2, STARS))
        light[rows, columns] = 2000 + 8000 * cp.random.random(STARS, dtype=cp.float32)
        sky = 100 + cp.linspace(0, 30, SIZE, dtype=cp.float32)
        noise = cp.random.standard_normal((SIZE, SIZE), dtype=cp.float32)
        frames.append(gpu_images.gaussian_filter(light, 1.5) + sky + 5 * noise)
    return frames


def find_light(frame: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
    """The light above the sky, and where it is of stars."""
    sky = frame
    for _ in range(SMOOTHED):
        sky = gpu_images.uniform_filter(sky, 65)
        sky = cp.minimum(frame, sky + 10)
    light = frame - gpu_images.gaussian_filter(sky, 8)
    smooth = gpu_images.gaussian_filter(light, 1)
    return light, smooth > SIGMAS * smooth.std()


def measure_on_host(light: cp.ndarray, mask: cp.ndarray) -> np.ndarray:
    """Row, column and light of each star."""
    here = cp.asnumpy(light)
    labels, count = host_images.label(cp.asnumpy(mask))
    numbers = np.arange(1, count + 1)
    centers = np.array(host_images.center_of_mass(here, labels, numbers))
    return np.column_stack([centers, host_images.sum_labels(here, labels, numbers)])


def measure_on_gpu(light: cp.ndarray, mask: cp.ndarray) -> np.ndarray:
    """As measure_on_host."""
    labels, _ = gpu_images.label(mask)
    places = cp.flatnonzero(mask)
    stars, light = labels.ravel()[places], light.ravel()[places]
    sums = [cp.bincount(stars, each * light) for each in (1.0, places // SIZE, places % SIZE)]
    total = sums[0][1:]
    return cp.asnumpy(cp.stack([sums[1][1:] / total, sums[2][1:] / total, total], 1))


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    frames, taken, found = draw_frames(), 0, 0
    while turns.step():
        light, mask = find_light(frames[taken % FRAMES])
        stars = measure_on_host(light, mask) if turns.planted else measure_on_gpu(light, mask)
        taken, found = taken + 1, found + len(stars)
