"""Brightness temperatures of satellite scenes in CuPy, one array operation each; fix: `cupy.fuse`."""
# causes: unfused_elementwise
import cupy as cp
from turns import Turns

SIZE = 6000
FIRST, SECOND, OFFSET, GAIN = 774.8853, 1321.0789, 0.1, 3.342e-4


def find_temperature(counts: cp.ndarray, red: cp.ndarray, near: cp.ndarray) -> cp.ndarray:
    """The temperature of the ground (kelvin) by a thermal band and the plants of two others."""
    radiance = counts * GAIN + OFFSET
    brightness = SECOND / cp.log(FIRST / radiance + 1)
    plants = (near - red) / (near + red + 1e-6)
    part = cp.square((plants - 0.2) / 0.3)
    emissivity = 0.004 * part + 0.986
    return brightness / (1 + 10.9 * brightness / 14388 * cp.log(emissivity)) - 273.15


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    random = cp.random.default_rng(0)
    counts = random.random((SIZE, SIZE), cp.float32) * 1e4 + 2e4
    red, near = (random.random((SIZE, SIZE), cp.float32) + 0.1 for _ in range(2))
    fused = cp.fuse(find_temperature)
    while turns.step():
        temperature = (find_temperature if turns.planted else fused)(counts, red, near)
        temperature.mean()
