"""How many bytes a step's all-reduces move, and the bus bandwidth that follows.

NCCL's payloads hold the sizes (comm/nccl_payload.py), but most exports lack them. Then the copies
of PyTorch's DDP are used: after the last all-reduce it copies every gradient out of its buckets,
from the thread that launched it, and these copies are as large as the messages in each step.
(Measured: 50.4, 302.3 and 805.7 MB for models with as many bytes of parameters; the resulting
bandwidth equals that of nccl-tests on the same machine.)
"""

from collections.abc import Callable

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COPY,
    COPY_ON_DEVICE,
    NO_CALL,
    Activity,
)
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.place_on_gpu import step_of
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.comm_kernels import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
    SEND_RECV,
    comm_kind,
)

BUS_FACTORS: dict[str, Callable[[int], float]] = {
    ALL_REDUCE: lambda ranks: 2 * (ranks - 1) / ranks,
    # nccl-tests has (n - 1) / n here, of the n parts of all ranks:
    # https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    ALL_GATHER: lambda ranks: ranks - 1,
    REDUCE_SCATTER: lambda ranks: ranks - 1,
    BROADCAST: lambda ranks: 1,
    REDUCE: lambda ranks: 1,
    SEND_RECV: lambda ranks: 1,
    ALL_TO_ALL: lambda ranks: 1,
}
"""Bus bandwidth (as in nccl-tests) divided by NCCL's size / time, by kind and number of ranks.

The size of an all-to-all and of a send/receive does not include what a rank sends to itself.
"""
# The sum of the copies must be the same in 90 % of the steps. Otherwise other copies are mixed
# with the gradients.
SAME_SHARE = 0.9


def reduced_bytes(activity: Activity) -> IntArray:
    """Bytes that this rank's all-reduces moved, by window: the whole span, then each step.

    All values are 0 where the size is unknown: without steps, on several streams, or with other
    collectives beside the all-reduces.
    """
    ops, steps = activity.ops, find_steps(activity)
    unknown = np.zeros(len(steps) + 1, np.int64)
    comm_ops = np.flatnonzero((ops.kind == COMMUNICATION) & (ops.call != NO_CALL))
    names = {activity.names[code] for code in list_distinct(ops.name[comm_ops])}
    is_single = len(list_distinct(ops.stream[comm_ops])) == 1 and all(
        comm_kind(name) == ALL_REDUCE for name in names
    )
    if not len(steps) or not is_single:
        return unknown
    step = step_of(activity.launch_starts[comm_ops], steps.host_start, steps.host_end)
    if np.all(ops.bytes[comm_ops] > 0):
        return _by_step(ops.bytes[comm_ops], step, len(steps))
    sizes = _measure_copies(activity, steps, comm_ops, step)
    usual = np.median(sizes[1:])
    return sizes if usual and np.mean(sizes[1:] == usual) >= SAME_SHARE else unknown


def _measure_copies(
    activity: Activity, steps: Steps, comm_ops: IntArray, step: IntArray
) -> IntArray:
    """Bytes that the threads of the communication copy on the device after the last of it, by
    window; `step`: that of each of `comm_ops`.
    """
    ops, launched = activity.ops, activity.launch_starts
    threads = list_distinct(activity.launcher_of(comm_ops))
    last = np.full(len(steps), np.iinfo(np.int64).max)
    inside = np.flatnonzero((step >= 0) & (step < len(steps)))
    # Numpy keeps the last of several writes to a cell, so with rising launch times the latest
    # launch of each step stays.
    order = inside[np.argsort(launched[comm_ops[inside]], kind="stable")]
    last[step[order]] = launched[comm_ops[order]]
    copies = np.flatnonzero(
        (ops.kind == COPY) & (ops.copy_kind == COPY_ON_DEVICE) & (ops.call != NO_CALL)
    )
    copies = copies[is_among(activity.launcher_of(copies), threads)]
    step = step_of(launched[copies], steps.host_start, steps.host_end)
    late = (step >= 0) & (step < len(steps)) & (launched[copies] > last[step])
    return _by_step(ops.bytes[copies[late]], step[late], len(steps))


def _by_step(size: IntArray, step: IntArray, steps: int) -> IntArray:
    inside = (step >= 0) & (step < steps)
    sums = np.bincount(step[inside], weights=size[inside], minlength=steps)
    return np.asarray(np.rint(np.r_[sums.sum(), sums]), np.int64)


def bus_bandwidth(moved: float, ns: float, ranks: int, kind: str = ALL_REDUCE) -> float:
    """GB/s of each rank's links, as "busbw" of nccl-tests; 0.0 for unknown kinds.

    `moved` is NCCL's size: the whole message of an all-reduce, one rank's part of the other kinds.
    """
    factor = BUS_FACTORS.get(kind)
    return factor(ranks) * moved / ns if ns and factor else 0.0
