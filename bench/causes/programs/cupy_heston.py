"""Options under Heston's volatility in CuPy; the cause computes each day by single array operations.

The fix has one elementwise kernel for a day.
"""
# causes: tiny_kernels, host_bound
import cupy as cp
from turns import Turns

PATHS, DAYS = 131_072, 126
SPAN, RATE, PULL, MEAN, SWING, LINK = 1 / 252, 0.02, 1.5, 0.04, 0.3, -0.7
REST = (1 - LINK**2) ** 0.5

move = cp.ElementwiseKernel(
    "float32 one, float32 other, float32 span, float32 rate, float32 pull, float32 mean, "
    "float32 swing, float32 link",
    "float32 price, float32 variance",
    """
    const float v = max(variance, 0.0f), root = sqrtf(v * span);
    price *= expf((rate - 0.5f * v) * span + root * one);
    variance += pull * (mean - v) * span
        + swing * root * (link * one + sqrtf(1 - link * link) * other);
    """,
    "move",
)


def walk_by_arrays(price: cp.ndarray, variance: cp.ndarray, shocks: cp.ndarray) -> cp.ndarray:
    """The prices on the last day; shocks: (days, 2, paths)."""
    for one, other in shocks:
        v = cp.maximum(variance, 0)
        root = cp.sqrt(v * SPAN)
        price = price * cp.exp((RATE - 0.5 * v) * SPAN + root * one)
        linked = LINK * one + REST * other
        variance = variance + PULL * (MEAN - v) * SPAN + SWING * root * linked
    return price


def walk_by_kernel(price: cp.ndarray, variance: cp.ndarray, shocks: cp.ndarray) -> cp.ndarray:
    """As walk_by_arrays."""
    price, variance = price.copy(), variance.copy()
    for one, other in shocks:
        move(one, other, SPAN, RATE, PULL, MEAN, SWING, LINK, price, variance)
    return price


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    cp.random.seed(0)
    price = cp.full(PATHS, 100, cp.float32)
    variance = cp.full(PATHS, MEAN, cp.float32)
    strikes = cp.arange(80, 121, 5, dtype=cp.float32)
    total = cp.zeros(len(strikes), cp.float32)
    while turns.step():
        shocks = cp.random.standard_normal((DAYS, 2, PATHS), cp.float32)
        walk = walk_by_arrays if turns.planted else walk_by_kernel
        last = walk(price, variance, shocks)
        total += cp.maximum(last - strikes[:, None], 0).mean(1)
