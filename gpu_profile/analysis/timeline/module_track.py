"""The modules of the model on the GPU, as one track of a timeline."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.owners import UNATTRIBUTED, Owner, find_op_owners


@dataclass(frozen=True, eq=False)
class ModuleTrack:
    """Stretches of compute kernels of one module in a row, sorted and disjoint. `name` indexes
    `names`, for example "backward transformer.h.3.attn".
    """

    start: IntArray
    end: IntArray
    name: IntArray
    names: tuple[str, ...]


def make_module_track(activity: Activity) -> ModuleTrack | None:
    """The track of one rank; None if it was recorded without --annotate."""
    owners = find_op_owners(activity)
    rows = np.flatnonzero(activity.ops.kind == COMPUTE)
    if owners is None or not len(rows):
        return None
    code, start, end = owners.of_op[rows], activity.ops.start[rows], activity.ops.end[rows]
    first = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    reach = np.maximum.reduceat(end, first)
    # Kernels of two streams overlap: a stretch ends where the next one begins.
    begin = start[first]
    reach[:-1] = np.minimum(reach[:-1], begin[1:])
    some = np.flatnonzero(reach > begin)
    names = tuple(_name_owner(owner) for owner in owners.owners)
    return ModuleTrack(begin[some], reach[some], code[first][some], names)


def _name_owner(owner: Owner) -> str:
    name = owner.module.name
    if owner.work == UNATTRIBUTED:
        return f"({UNATTRIBUTED}) {name.strip('()')}"
    return f"{owner.work} {name}" if owner.module.is_real else name.strip("()")
