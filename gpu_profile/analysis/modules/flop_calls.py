"""The calls of operators whose FLOPs are known: their module, their pass, and their kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.nvtx_ranges import (
    NO_RANGE,
    Ranges,
    find_own_innermost,
    find_parents,
)
from gpu_profile.analysis.arrays.columns import encode_column
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.flops import count_flops, find_conv_outputs
from gpu_profile.analysis.modules.marks import BACKWARD, FORWARD, Module, load_marks, phases_of
from gpu_profile.analysis.modules.op_shapes import parse_op
from gpu_profile.analysis.modules.owners import UNATTRIBUTED, Owners, find_owners_at
from gpu_profile.analysis.tables.kernel_class import classify_kernel

NO_MODULE = Module(f"({UNATTRIBUTED})", UNATTRIBUTED)
RECOMPUTED = "recomputed"
PASSES = (FORWARD, BACKWARD, RECOMPUTED)
MULTIPLYING = ("GEMM", "attention")
NO_KERNEL = -1
UNCOUNTED = -1  # in place of the FLOPs of an operator whose shapes do not say them


@dataclass(frozen=True, eq=False)
class FlopCalls:
    """Calls in arrays of one length. `flops` may be UNCOUNTED. `module` indexes `modules`, `work`
    indexes PASSES. `kernel` is the id of the full name of the longest kernel that the call launched
    (of those that multiply matrices), or NO_KERNEL. `counted_rows` are the rows of the compute
    kernels that calls of known FLOPs launched.
    """

    start: IntArray
    flops: IntArray
    module: IntArray
    work: IntArray
    kernel: IntArray
    modules: Sequence[Module]
    counted_rows: IntArray


@once_each
def find_flop_calls(activity: Activity) -> FlopCalls | None:
    """The calls with FLOPs, none of which is inside another; None if there are no shapes.

    aten::convolution calls aten::cudnn_convolution: the outer one counts for both.
    """
    by_name = _count_by_name(activity.ranges)
    ranges = activity.ranges.pick(np.flatnonzero(by_name[activity.ranges.name] != 0))
    if not len(ranges.start):
        return None
    calls = ranges.pick(np.flatnonzero(find_parents(ranges) == NO_RANGE))
    owners = find_owners_at(activity, calls.thread, calls.start)
    modules, module = _find_modules(owners, len(calls.start))
    flops, work = by_name[calls.name], _find_pass(activity, calls, owners)
    rows, call = _find_launched(activity, calls)
    kernel = _find_kernels(activity, rows, call, len(calls.start))
    counted = rows[flops[call] != UNCOUNTED]
    return FlopCalls(calls.start, flops, module, work, kernel, modules, counted)


def _count_by_name(ranges: Ranges) -> IntArray:
    """The FLOPs of a call by the name of its range; 0 for a range that is no operator."""
    ops = [parse_op(name) for name in ranges.names]
    outputs = find_conv_outputs(op for op in ops if op)
    counts = [count_flops(op, outputs) if op else 0 for op in ops]
    return np.array([UNCOUNTED if count is None else count for count in counts], np.int64)


def _find_modules(owners: Owners | None, size: int) -> tuple[Sequence[Module], IntArray]:
    """(modules, index of each call's module)."""
    if owners is None:
        return (NO_MODULE,), np.zeros(size, np.int64)
    return [
        NO_MODULE if owner.work == UNATTRIBUTED else owner.module for owner in owners.owners
    ], owners.of_op


def _find_pass(activity: Activity, calls: Ranges, owners: Owners | None) -> IntArray:
    """The index in PASSES of each call. A module's forward in the backward pass is recomputed.

    Without --annotate what another thread than the first one runs is the backward pass.
    """
    marks = load_marks(activity.ranges)
    if marks is None or owners is None:
        return np.asarray(calls.thread != calls.thread[0], np.int64)
    phases = phases_of(marks)
    main = np.full(len(calls.start), phases.thread[0] if len(phases.start) else NO_RANGE)
    name = np.append(phases.name, NO_RANGE)[find_own_innermost(phases, main, calls.start)]
    phase_flags = np.array([*(mark.phase == BACKWARD for mark in marks.by_name), False], bool)
    in_backward = phase_flags[name]
    of_forward, of_backward = (owners.flags(work)[owners.of_op] for work in (FORWARD, BACKWARD))
    backward = of_backward | (in_backward & ~of_forward)
    return np.asarray(np.where(backward, 1, np.where(in_backward, 2, 0)), np.int64)


def multiplies(activity: Activity, rows: IntArray) -> NDArray[np.bool_]:
    """Whether each kernel is of a class that multiplies matrices, by its name."""
    codes, names = encode_column(activity.ops.full_name[rows])
    classes = (classify_kernel(activity.names.get(name, "")) for name in names.tolist())
    return np.array([kind in MULTIPLYING for kind in classes], bool)[codes]


def _find_launched(activity: Activity, calls: Ranges) -> tuple[IntArray, IntArray]:
    """(rows of compute kernels that calls launched, the call of each)."""
    rows = np.flatnonzero(activity.ops.kind == COMPUTE)
    call = find_own_innermost(calls, activity.launcher_of(rows), activity.launch_starts[rows])
    inside = call != NO_RANGE
    return rows[inside], call[inside]


def _find_kernels(activity: Activity, rows: IntArray, call: IntArray, size: int) -> IntArray:
    """The id of the full name of the longest kernel in each of `size` calls, or NO_KERNEL.

    A kernel that multiplies matrices goes before one that only prepares them (a change of layout).
    """
    ops = activity.ops
    rising = np.lexsort((ops.duration[rows], multiplies(activity, rows), call))
    kernel = np.full(size, NO_KERNEL)
    # numpy writes in order, so that the last of equal places, the longest kernel, stays.
    kernel[call[rising]] = ops.full_name[rows[rising]]
    return kernel
