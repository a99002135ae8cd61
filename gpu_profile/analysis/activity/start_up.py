"""Start-up of a program: the time before its first steady step, split into parts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.edges import starts_program
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER
from gpu_profile.analysis.activity.steps.common_steps import first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.intervals import NOTHING, Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

IMPORTS = "before the first CUDA call (imports)"
# The driver calls of each part of a start-up. A recording without any context or library call
# began after the program's start, so it has no start-up.
CONTEXTS = re.compile(r"cuInit$|cuCtxCreate|cuDevicePrimaryCtxRetain|cudaInitDevice|cudaSetDevice_")
LIBRARIES = re.compile(r"cu(da)?Library(Load|Get)|cuModule(Load|Get)|__cudaRegisterFatBinary")
MEMORY = re.compile(r"cuda(Malloc|HostAlloc|HostRegister|MallocHost)|cuMem(Alloc|Create|Host)")
COMMUNICATORS = re.compile(r"(NCCL:)?nccl(CommInit|CommSplit)")
# XLA's own NVTX ranges while it compiles a module (JAX 0.11); "XlaModule" runs one.
XLA = re.compile(r"(\w+:)?Xla(Compile|EmitLlvmIr|OptimizeLlvmIr)")
COMPILING, FIRST_STEPS = "compiling", "the first steps"
# Names of the kernels that torch.compile writes, such as triton_poi_fused_gelu_3.
TORCH_COMPILED = re.compile(r"triton_(poi|red|per|tem|for|spl)_")
PARTS = (
    ("loading CUDA libraries", LIBRARIES),
    ("contexts", CONTEXTS),
    ("allocating memory", MEMORY),
)


@dataclass(frozen=True)
class StartUp:
    """The start-up of one rank, from `start` to `end` (ns, the report's clock), the first steady
    step.

    `parts`: ns by name, disjoint, e.g. {"loading CUDA libraries": 2_100_000_000}. The rest of the
    length is other work of the host, such as reading data. `first_steps` counts the warm-up steps;
    their time without compilation is the part "the first steps". "compiling" is what NVTX ranges of
    XLA or Python samples prove. `compiled_kernels` counts the kernels of torch.compile that the
    first steps launch for the first time.
    """

    start: int
    end: int
    parts: Mapping[str, int]
    first_steps: int
    compiled_kernels: int = 0

    @property
    def length(self) -> int:
        return self.end - self.start


@once_each
def find_start_up(activity: Activity) -> StartUp | None:
    """The start-up of one rank; None without steps, or if the recording began after it."""
    return find_start_up_with_compilations(activity, NOTHING)


def find_start_up_with_compilations(activity: Activity, compilations: Intervals) -> StartUp | None:
    """As find_start_up(), with the times of compilations that samples of the host's stacks show."""
    steps, calls = find_steps(activity), activity.calls
    if not len(steps) or not len(calls.start):
        return None
    drop = first_steady(steps.end - steps.start)
    loop, end = int(steps.host_start[0]), int(steps.host_start[drop])
    if not starts_program(activity, loop):
        return None
    start = min(0, int(calls.start[0]))
    compiling = _join_intervals(compilations, _find_named_ranges(activity, XLA))
    parts = _measure_parts(activity, start, loop, compiling)
    if end > loop:
        window = Intervals(np.array([loop]), np.array([end]))
        inside = compiling.meet(window).total
        parts[FIRST_STEPS] = end - loop - inside
        parts[COMPILING] = parts.get(COMPILING, 0) + inside
    named_parts = {name: length for name, length in parts.items() if length}
    return StartUp(start, end, named_parts, drop, _count_compiled(activity, loop, end))


def _count_compiled(activity: Activity, loop: int, end: int) -> int:
    """How many kernels of torch.compile the launches from `loop` to `end` hold, and none before."""
    codes = [code for code, name in activity.names.items() if TORCH_COMPILED.match(name)]
    rows = np.flatnonzero(is_among(activity.ops.name, codes))
    names, launched = activity.ops.name[rows], activity.launch_starts[rows]
    before = np.unique(names[launched < loop])
    return len(np.setdiff1d(names[(launched >= loop) & (launched < end)], before))


@once_each
def steady_window(activity: Activity) -> tuple[int, int]:
    """(start, end) in ns of the time that figures of the whole recording cover.

    That is the time of the steady steps where the recording has a start-up, and else the time from
    the first operation to the last.
    """
    ops, steps = activity.ops, find_steps(activity)
    start_up = find_start_up(activity)
    if start_up is None:
        return int(ops.start[0]), int(ops.end.max())
    return int(steps.start[start_up.first_steps]), int(steps.end[-1])


def _measure_parts(
    activity: Activity, start: int, end: int, compiling: Intervals
) -> dict[str, int]:
    """The time (ns) of each part between `start` and `end`.

    Where two parts overlap (a library that loads while a communicator is set up), the time counts
    for the earlier one in the list.
    """
    calls, time_by_part, covered = activity.calls, dict[str, int](), NOTHING
    window = Intervals(np.array([start]), np.array([end]))
    first = int(min(calls.start[0], end))
    pieces = [(IMPORTS, Intervals.union(np.array([start]), np.array([first])))]
    for name, pattern in PARTS:
        rows = calls.match_names(activity.names, pattern)
        pieces.append((name, Intervals.union(calls.start[rows], calls.end[rows])))
    pieces.insert(2, ("communicators", _find_named_ranges(activity, COMMUNICATORS)))
    pieces.append((COMPILING, compiling))
    for name, piece in pieces:
        uncovered = piece.meet(window).minus(covered)
        covered = _join_intervals(covered, uncovered)
        if uncovered.total:
            time_by_part[name] = uncovered.total
    return time_by_part


def _find_named_ranges(activity: Activity, pattern: re.Pattern[str]) -> Intervals:
    """The time of the closed NVTX ranges with such a name, e.g. those in which NCCL sets up its
    communicators.
    """
    ranges = activity.ranges
    codes = [code for code, name in enumerate(ranges.names) if pattern.match(name)]
    rows = np.flatnonzero(is_among(ranges.name, codes) & (ranges.end != FOREVER))
    return Intervals.union(ranges.start[rows], ranges.end[rows])


def _join_intervals(first: Intervals, other: Intervals) -> Intervals:
    start: IntArray = np.r_[first.start, other.start]
    return Intervals.union(start, np.r_[first.end, other.end])
