"""The kernels of each module of one rank, in the steady steps."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.modules.marks import FORWARD, Module, load_marks
from gpu_profile.analysis.modules.module_times import find_steady_kernels
from gpu_profile.analysis.modules.owners import find_op_owners
from gpu_profile.analysis.tables.statistics import encode_rows


@dataclass(frozen=True)
class ModuleKernel:
    """One kernel of one module in one kind of work (owners.WORKS): ns and launches."""

    module: Module
    work: str
    kernel: str
    time: int
    count: int


def list_module_kernels(activity: Activity) -> list[ModuleKernel]:
    """The kernels of one rank by module; empty if it was recorded without --annotate.

    A module without kernels of its own has one entry without launches, which tells its class.
    """
    marks = load_marks(activity.ranges)
    owners, rows = find_op_owners(activity), find_steady_kernels(activity)
    if owners is None or marks is None:
        return []
    codes, combinations = encode_rows(owners.of_op[rows], activity.ops.name[rows])
    counts = np.bincount(codes, minlength=len(combinations)).tolist()
    times = np.zeros(len(combinations), np.int64)
    np.add.at(times, codes, activity.ops.duration[rows])
    kernels = [
        ModuleKernel(
            owners.owners[owner].module, owners.owners[owner].work, activity.names[name], *numbers
        )
        for (owner, name), *numbers in zip(combinations, times.tolist(), counts, strict=True)
    ]
    idle = {mark.module for mark in marks.by_name} - {one.module for one in kernels}
    named = sorted(module for module in idle if module.name and module.is_real)
    return [*kernels, *(ModuleKernel(module, FORWARD, "", 0, 0) for module in named)]
