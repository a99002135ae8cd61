"""Directions of crystals told from electron patterns and a dictionary in CuPy; the cause multiplies them in fp32.

That is CuPy's default. The fix allows TF32, as CUPY_TF32=1 does.
"""
# causes: no_tensor_cores
import cupy as cp
from cupy._core import _routines_linalg
from cupyx.scipy.ndimage import gaussian_filter
from turns import Turns

PATTERNS, KNOWN, SIDE, NOISE, SCANS = 8192, 12288, 64, 0.8, 2


def scale(patterns: cp.ndarray) -> cp.ndarray:
    """Patterns as rows, of mean zero and length one."""
    rows = patterns.reshape(len(patterns), -1)
    rows = rows - rows.mean(1, keepdims=True)
    return rows / cp.linalg.norm(rows, axis=1, keepdims=True)


def clean(patterns: cp.ndarray) -> cp.ndarray:
    """Patterns as even in brightness as the dictionary's."""
    background = gaussian_filter(patterns, sigma=(0, 4, 4))
    return scale(patterns - background)


def allow_tf32(allowed: bool) -> None:
    linalg = _routines_linalg
    kind = linalg.COMPUTE_TYPE_TF32 if allowed else linalg.COMPUTE_TYPE_DEFAULT
    linalg.set_compute_type(cp.float32, kind)


def draw(random: cp.random.Generator, patterns: int) -> cp.ndarray:
    return random.standard_normal((patterns, SIDE, SIDE), cp.float32)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    random = cp.random.default_rng(0)
    dictionary = draw(random, KNOWN)
    truth = [random.integers(0, KNOWN, PATTERNS) for _ in range(SCANS)]
    scans = [dictionary[kinds] + NOISE * draw(random, PATTERNS) for kinds in truth]
    known, step = cp.ascontiguousarray(clean(dictionary).T), 0
    found = []
    while turns.step():
        allow_tf32(not turns.planted)
        alike = clean(scans[step % SCANS]) @ known
        best = alike.argmax(1)
        found.append((best == truth[step % SCANS]).mean())
        step += 1
