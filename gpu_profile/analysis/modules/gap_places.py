"""Name what the host was in while the GPU idled: a module, a phase, or a range of the program."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.gaps import Gaps, find_gaps, ranges_at
from gpu_profile.analysis.activity.nvtx_ranges import NO_RANGE
from gpu_profile.analysis.arrays.columns import encode_column, narrow_column
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.marks import DATA, fold_module
from gpu_profile.analysis.modules.module_times import find_gap_owners
from gpu_profile.analysis.modules.owners import NO_LAUNCH, NO_PHASE, UNATTRIBUTED, Owner


@dataclass(frozen=True)
class GapPlace:
    """A module with its numbers folded ("transformer.h.*.attn"), else an NVTX range or a phase
    ("backward"); the name is "" outside of all.
    """

    name: str
    is_module: bool = False

    def __str__(self) -> str:
        """For a sentence: "transformer.h.*.attn" or "range backward"."""
        return self.name if self.is_module or not self.name else f"range {self.name}"


NOWHERE = GapPlace("")


@once_each
def find_gap_places(activity: Activity) -> tuple[IntArray, tuple[GapPlace, ...]]:
    """(codes, places): the place of each of find_gaps() is places[code].

    A module counts before the program's own range, that before a phase of --annotate.
    """
    gaps = find_gaps(activity)
    user, user_places = _find_user_ranges(activity, gaps)
    owners = find_gap_owners(activity, gaps)
    if owners is None:
        return user, user_places
    own_places = [_place_of(owner) for owner in owners.owners]
    wins = np.array([place.is_module or place.name == DATA for place in own_places], bool)
    chosen = wins[owners.of_op] | (user == 0)
    return _merge(np.where(chosen, owners.of_op, user + len(own_places)), own_places, user_places)


def _find_user_ranges(activity: Activity, gaps: Gaps) -> tuple[IntArray, tuple[GapPlace, ...]]:
    ranges = activity.ranges.of_user()
    index = ranges_at(activity, ranges, gaps)
    # + 1: NO_RANGE is -1, and place 0 is NOWHERE.
    codes = narrow_column(np.append(ranges.name, NO_RANGE) + 1)[index]
    return codes, (NOWHERE, *map(GapPlace, ranges.names))


def _place_of(owner: Owner) -> GapPlace:
    name = owner.module.name
    if owner.module.is_real:
        return GapPlace(fold_module(owner.module), is_module=True)
    if owner.work == UNATTRIBUTED and name in (f"({NO_PHASE})", f"({NO_LAUNCH})"):
        return NOWHERE
    return GapPlace(name.strip("()"))


def _merge(
    codes: IntArray, *parts: "list[GapPlace] | tuple[GapPlace, ...]"
) -> tuple[IntArray, tuple[GapPlace, ...]]:
    """The codes of equal places made equal, and the places in use."""
    places = [place for part in parts for place in part]
    dense, used = encode_column(codes)
    chosen = [places[code] for code in used.tolist()]
    unique = tuple(dict.fromkeys(chosen))
    same = np.array([unique.index(place) for place in chosen], np.int64)
    return (same[dense] if len(codes) else codes), unique
