"""The timeline's data for the page's script: facts in JSON, numbers in one packed block."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from gpu_profile.analysis.activity.states import RankStates, split_exposed
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.page.events import GPU_LANES, LANES, RankPicture
from gpu_profile.analysis.page.marks import NO_MARKS, Marks
from gpu_profile.analysis.page.pack import Packer
from gpu_profile.analysis.page.path_rows import KINDS, PathOf
from gpu_profile.formats.function_names import shorten_names, split_name

_RANKS_AT_ONCE = 32
# A model has some 1,000 names. A million of them made a page of 55 MB and took 1.5 GB of memory.
MOST_NAMES = 20_000
# Names in boxes, of which most are narrower; a crafted name takes 1 ms to shorten.
SHORT, MOST_SHORT = 40, 1_000
MOST_LETTERS = 1_500_000
OTHER_NAMES = "(one of many other names)"


@dataclass
class _Names:
    """An index for every distinct name over all ranks; OTHER_NAMES for those beyond MOST_NAMES."""

    redact: Callable[[str], str]
    index_by_name: dict[str, int] = field(default_factory=dict)
    """The index of each readable name, in the order of the page's list."""
    _index_by_raw_name: dict[str, int] = field(default_factory=dict)

    def codes(self, marks: Marks) -> IntArray:
        codes = [self._code(name) for name in marks.names]
        return np.array(codes, np.int64)[marks.name] if len(marks.name) else marks.name

    def _code(self, name: str) -> int:
        if (code := self._index_by_raw_name.get(name)) is not None:
            return code
        if len(self._index_by_raw_name) >= MOST_NAMES:
            return self.index_by_name.setdefault(OTHER_NAMES, len(self.index_by_name))
        code = self.index_by_name.setdefault(self.redact(name), len(self.index_by_name))
        self._index_by_raw_name[name] = code
        return code


@dataclass(frozen=True, eq=False)
class RankWaits:
    """When a rank waited in collectives for the last rank; sorted, on the run's clock."""

    start: IntArray
    end: IntArray


_NO_PATHS: PathOf = {}
_NO_WAITS = RankWaits(np.empty(0, np.int64), np.empty(0, np.int64))
Edges: TypeAlias = Sequence[tuple[int, int, int]]
"""(number, start, end) of the windows."""
Encoded: TypeAlias = tuple[str, Future[str]]
"""The timeline's facts, and its block, which a thread packs."""
WaitsOf: TypeAlias = Mapping[tuple[int, int], RankWaits]
"""The waits by (rank, device)."""


def waits_of(parts: Iterable[RankStates], clock_error_ns: int, most: int) -> WaitsOf:
    """The waits of each rank, at most the `most` longest ones."""
    waits = {}
    for split in split_exposed(list(parts), clock_error_ns):
        collectives, matched = split.states.collectives, split.arrivals.is_matched
        start = collectives.start[matched]
        end = np.clip(split.arrivals.last[matched], start, collectives.end[matched])
        longest = np.argsort(start - end, kind="stable")[:most]
        rows = np.sort(longest[end[longest] > start[longest]])
        waits[split.states.rank, split.states.device] = RankWaits(start[rows], end[rows])
    return waits


@dataclass(frozen=True, eq=False)
class Side:
    """A run of a timeline: `name` is "" where it is the only one. Its clock begins at `origin`."""

    name: str
    ranks: Sequence[RankPicture]
    waits: WaitsOf
    origin: int
    paths: PathOf = field(default_factory=dict)


def timeline_data(
    ranks: Sequence[RankPicture],
    waits: WaitsOf,
    redact: Callable[[str], str],
    windows: Edges = (),
    paths: PathOf = _NO_PATHS,
) -> Encoded:
    """(facts as JSON, the block in base64). Times are ns from the earliest operation."""
    origin = min((rank.start for rank in ranks), default=0)
    return encode_sides([Side("", ranks, waits, origin, paths)], redact, windows, origin)


def encode_sides(
    sides: Sequence[Side], redact: Callable[[str], str], windows: Edges, origin: int
) -> Encoded:
    """(facts, block) of timeline_data() for runs whose clocks begin at their own `origin`; `origin`
    is the time of the axis there. Ranks of one number stand together.
    """
    packer, names = Packer(), _Names(redact)
    pairs = [(number, side, rank) for number, side in enumerate(sides) for rank in side.ranks]
    pairs.sort(key=lambda pair: (pair[2].rank, pair[2].device, pair[0]))
    ranks = [rank for *_, rank in pairs]
    facts = {
        "sides": [side.name for side in sides],
        "origin": origin,
        "end": max((rank.end - side.origin for _, side, rank in pairs), default=0),
        "lanes": LANES if is_on_gpus(ranks) else (),
        "onGpu": len(GPU_LANES) if is_on_gpus(ranks) else 0,
        "pathKinds": KINDS,
        "most": _RANKS_AT_ONCE,
        "windows": [
            [number, max(0, start - origin), end - origin] for number, start, end in windows
        ],
        "ranks": [
            {**_encode_rank_of(side, rank, packer, names), "side": number}
            for number, side, rank in pairs
        ],
        "names": _cut(list(names.index_by_name)),
    }
    facts["short"] = _shorten(list(names.index_by_name))
    facts["function"] = _name_functions(list(names.index_by_name))
    return json.dumps(facts, separators=(",", ":")), packer.start_packing()


def _encode_rank_of(
    side: Side, rank: RankPicture, packer: Packer, names: _Names
) -> dict[str, object]:
    waits = side.waits.get((rank.rank, rank.device), _NO_WAITS)
    path = side.paths.get(rank.rank, NO_MARKS)
    return {
        **_encode_rank(rank, side.origin, packer, names),
        "waits": _encode_waits(waits, side.origin, packer),
        "path": _encode_marks(path, side.origin, packer, names),
    }


def _encode_rank(
    rank: RankPicture, origin: int, packer: Packer, names: _Names
) -> dict[str, object]:
    is_complete = rank.exact_start <= rank.start and rank.exact_end >= rank.end
    return {
        "rank": rank.rank,
        "width": rank.width,
        "first": rank.first * rank.width - origin,
        "busy": packer.add(rank.busy.ravel()),
        "exact": [rank.exact_start - origin, rank.exact_end - origin, int(is_complete)],
        "events": _encode_marks(rank.events, origin, packer, names),
        "depth": int(rank.ranges.lane.max()) + 1 if len(rank.ranges.lane) else 0,
        "nvtx": _encode_marks(rank.ranges, origin, packer, names),
        "calls": _encode_marks(rank.host.calls, origin, packer, names),
        "stacks": _encode_marks(rank.host.stacks, origin, packer, names),
        "steps": {
            "start": packer.add(np.maximum(rank.steps_start - origin, 0)),
            "end": packer.add(np.maximum(rank.steps_end - origin, 0)),
        },
    }


def _cut(names: list[str]) -> list[str]:
    """The names, long ones cut where all of them have more than MOST_LETTERS."""
    if sum(map(len, names)) <= MOST_LETTERS:
        return names
    most = MOST_LETTERS // len(names)
    return [name if len(name) <= most else f"{name[:most]}…" for name in names]


def _shorten(names: Sequence[str]) -> dict[int, str]:
    """By place in the list of names: a name as a box has room for it, and as tables print it."""
    long = [name for name in names if len(name) > SHORT][:MOST_SHORT]
    short = shorten_names(long, SHORT)
    return {place: short[name] for place, name in enumerate(names) if name in short}


def _name_functions(names: Sequence[str]) -> dict[int, str]:
    """By place in the list of names: the function alone, as tables of short names have it."""
    functions = enumerate(split_name(name)[0] for name in names[:MOST_SHORT])
    return {place: name for place, name in functions if name and name != names[place]}


def _encode_waits(waits: RankWaits, origin: int, packer: Packer) -> dict[str, object]:
    return {
        "start": packer.add(np.maximum(waits.start - origin, 0)),
        "length": packer.add(waits.end - waits.start),
    }


def _encode_marks(marks: Marks, origin: int, packer: Packer, names: _Names) -> dict[str, object]:
    first = int(marks.start[0]) if len(marks.start) else origin
    return {
        "first": first - origin,
        "gap": packer.add(np.diff(marks.start, prepend=first)),
        "length": packer.add(np.maximum(marks.end - marks.start, 0)),
        "name": packer.add(names.codes(marks)),
        "lane": packer.add(marks.lane),
    }


def is_on_gpus(ranks: Sequence[RankPicture]) -> bool:
    """Whether the run has GPU work."""
    return any(rank.total_events for rank in ranks)
