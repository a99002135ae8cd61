"""The kernels of each module of one rank, in the steady steps."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.nvtx_ranges import NO_RANGE, find_parents
from gpu_profile.analysis.modules.marks import FORWARD, Marks, Module, load_marks
from gpu_profile.analysis.modules.module_times import find_steady_kernels
from gpu_profile.analysis.modules.owners import find_op_owners
from gpu_profile.analysis.tables.statistics import encode_rows


@dataclass(frozen=True)
class ModuleKernel:
    """One kernel of one module in one kind of work (owners.WORKS): ns and launches.

    `around` are the modules without a name of their own that the module is in, the outermost
    first: DistributedDataParallel, GPT2LMHeadModel.
    """

    module: Module
    work: str
    kernel: str
    time: int
    count: int
    around: tuple[str, ...] = ()


def list_module_kernels(activity: Activity) -> list[ModuleKernel]:
    """The kernels of one rank by module; empty if it was recorded without --annotate.

    A module without kernels of its own has one entry without launches, which tells its class.
    """
    marks = load_marks(activity.ranges)
    owners = find_op_owners(activity)
    if owners is None or marks is None:
        return []
    rows = find_steady_kernels(activity)
    codes, combinations = encode_rows(owners.of_op[rows], activity.ops.name[rows])
    counts = np.bincount(codes, minlength=len(combinations)).tolist()
    times = np.zeros(len(combinations), np.int64)
    np.add.at(times, codes, activity.ops.duration[rows])
    around = find_nameless(marks)
    kernels = []
    for (code, name), time, count in zip(combinations, times.tolist(), counts, strict=True):
        owner = owners.owners[code]
        nameless = around.get(owner.module, ())
        columns = owner.module, owner.work, activity.names[name], time, count, nameless
        kernels.append(ModuleKernel(*columns))
    idle = {mark.module for mark in marks.by_name} - {kernel.module for kernel in kernels}
    modules = sorted(module for module in idle if module.name and module.is_real)
    return [
        *kernels,
        *(ModuleKernel(module, FORWARD, "", 0, 0, around.get(module, ())) for module in modules),
    ]


def find_nameless(marks: Marks) -> dict[Module, tuple[str, ...]]:
    """The classes of the modules without a name of their own around each module, the outermost
    first, by the ranges around its first forward.
    """
    ranges, parents = marks.ranges, find_parents(marks.ranges)
    codes, first = np.unique(ranges.name, return_index=True)
    around: dict[Module, tuple[str, ...]] = {}
    for code, row in zip(codes.tolist(), first.tolist(), strict=True):
        mark, chain = marks.by_name[code], list[str]()
        row = int(parents[row])
        while row != NO_RANGE:
            outer = marks.by_name[int(ranges.name[row])].module
            is_in_name = mark.module.name.startswith(f"{outer.name}.")  # of a second model
            if outer.is_nameless and not is_in_name and outer.name not in chain:
                chain.append(outer.name)
            row = int(parents[row])
        if mark.phase == FORWARD and mark.module.name:
            around[mark.module] = tuple(reversed(chain))
    return around
