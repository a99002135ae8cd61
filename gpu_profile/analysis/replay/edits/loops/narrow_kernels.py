"""Kernels of few threads: each leaves a part of the GPU idle, which a batch of them uses."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.tables.kernel_class import classify_kernel

TINY_NS = 5_000
NARROW_NS = 20_000
"""A kernel of few threads leaves a part of the GPU idle. Up to this time it is tiny, too, if its
work on all of it takes less than TINY_NS: a sort of 4,096 numbers has passes of one block and 6 us.
"""
FULL_THREADS = 1_024
"""Of a multiprocessor: half of what it holds at once. From there on more do not make most kernels
faster. Fewer leave it waiting for memory: 1,000 kernels of 256 blocks of 128 threads and 3.4 us
became one of 1.2 ms (H200)."""


def find_narrow_kernels(activity: Activity, multiprocessors: int) -> IntArray:
    """The kernels that are tiny only as a part of the GPU, which has so many multiprocessors."""
    ops = activity.ops
    is_short = (ops.length >= TINY_NS) & (ops.length < NARROW_NS)
    rows = np.flatnonzero((ops.kind == COMPUTE) & is_short)
    names, place = np.unique(ops.full_name[rows], return_inverse=True)
    products = [is_product(activity.names.get(name, "")) for name in names.tolist()]
    multiplies = np.array(products, bool)[place]
    share = measure_share(ops.blocks[rows], ops.threads[rows], multiplies, multiprocessors)
    return rows[ops.length[rows] * share < TINY_NS]


def measure_share(
    blocks: IntArray, threads: IntArray, multiplies: Flags, multiprocessors: IntArray | int
) -> NDArray[np.float64]:
    """The part of its GPU that each kernel can use, by its blocks and their threads; 1 where its
    blocks are unknown. `multiplies`: of is_product().
    """
    fits = FULL_THREADS / np.maximum(threads, 1)
    neighbours = np.where(multiplies | (threads == 0), 1.0, np.maximum(fits, 1.0))
    share = blocks / np.maximum(multiprocessors * neighbours, 1)
    is_known = (share > 0) & (np.asarray(multiprocessors) > 0)
    return np.where(is_known, np.minimum(share, 1.0), 1.0)


def is_product(name: str) -> bool:
    """Whether a kernel multiplies matrices: a block of it keeps the tensor cores of its
    multiprocessor busy. Of others several run beside each other, but where their size is unknown.
    """
    return classify_kernel(name) == "GEMM"
