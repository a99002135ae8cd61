"""Check that both runs of a comparison hold the same ranks, so that a gate fails if one is
missing.

The slowest rank sets the pace of a run, so a comparison without it could pass at any slowdown.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.compare.samples import Metric, RankSamples, Recording
from gpu_profile.analysis.multi_report.survey import format_names
from gpu_profile.errors import ReportError

Runs = Sequence[Sequence[RankSamples]]
"""The runs of one side, each as the samples of its ranks."""
_HINT = "`invoke diagnose` says what the recording of that rank misses"


@dataclass(frozen=True)
class SideRanks:
    """The ranks of one run: `side` is "base" or "new", `missing` are ranks that should have a
    report.

    `is_complete`: run.json or the reports hold the number of ranks, so that `missing` is reliable.
    `is_file`: the user named one report file, not a run.
    """

    side: str
    present: frozenset[int]
    missing: frozenset[int]
    is_complete: bool = True
    is_file: bool = False


def check_ranks(base: SideRanks, new: SideRanks) -> None:
    """Raise ReportError if a rank is missing on a side.

    Two single reports are compared as they are. Two runs may differ in their number of ranks (4
    GPUs against 8) only if both are known to be complete.
    """
    for side, other in ((base, new), (new, base)):
        missing = side.missing & other.present if side.is_file else side.missing
        if missing and not (side.is_file and other.is_file):
            raise _make_missing_error(side, missing)
    differ = base.present ^ new.present
    if differ and not (base.is_file and new.is_file) and not (base.is_complete and new.is_complete):
        side = new if differ & base.present else base
        raise _make_missing_error(side, differ - side.present)


def _make_missing_error(side: SideRanks, ranks: Iterable[int]) -> ReportError:
    return ReportError(
        f"the {side.side} run has no report of rank {format_names(sorted(ranks))}",
        "A comparison needs the same ranks of both runs; compare single reports by their files",
    )


def check_samples(base: Sequence[RankSamples], new: Sequence[RankSamples], metric: Metric) -> None:
    """Raise ReportError if a rank of both runs has samples of the metric in only one of them.

    Such a rank lost its GPU work or its marked steps, and the other ranks do not show its times. A
    rank that has kernels in one run only is an error too: its steps have times by its copies and
    NVTX ranges, which tell nothing of the GPU's work.
    """
    if {rank.rank for rank in base} != {rank.rank for rank in new}:
        return
    before, after = _list_sampled_ranks(base), _list_sampled_ranks(new)
    if before and after:
        _check_same(before, after, f"no {metric}", "it")
    _check_same(
        _list_ranks_with_kernels(base),
        _list_ranks_with_kernels(new),
        "no kernels to compare",
        "some",
    )


def check_recordings(base: Runs, new: Runs) -> None:
    """Raise ReportError if a recording is in two runs, unless a whole run is on both sides.

    A rank of the base run in the new one hides that the new one is slower.
    """
    runs = [("base", run) for run in base] + [("new", run) for run in new]
    for (side, run), (other_side, other) in itertools.combinations(runs, 2):
        recordings, others = _map_recordings(run), _map_recordings(other)
        if not (shared := recordings.keys() & others.keys()):
            continue
        if side != other_side and recordings.keys() == others.keys():
            continue
        ranks = format_names(sorted({others[recording] for recording in shared}))
        sides = f"a {side} run and a {other_side} run" if side != other_side else f"two {side} runs"
        what = f"{sides} hold the same recording of rank {ranks}"
        raise ReportError(what, "Name each run once, with its own reports")


def _map_recordings(run: Sequence[RankSamples]) -> dict[Recording, int]:
    return {rank.recording: rank.rank for rank in run if rank.recording}


def _check_same(base: set[int], new: set[int], lack: str, other_has: str) -> None:
    """Raise ReportError if a rank is in one of the sets only. `lack`: "no kernels", e.g."""
    for side, ranks, other in (("base", base, new), ("new", new, base)):
        if lost := other - ranks:
            where = f"on rank {format_names(sorted(lost))}"
            raise ReportError(
                f"the {side} run has {lack} {where}, and the other run has {other_has}", _HINT
            )


def _list_ranks_with_kernels(ranks: Sequence[RankSamples]) -> set[int]:
    """The numbers of the ranks with kernels; replays of CUDA graphs count as such."""
    return {rank.rank for rank in ranks if rank.kernels}


def _list_sampled_ranks(ranks: Sequence[RankSamples]) -> set[int]:
    """The numbers of the ranks whose samples a comparison would use."""
    on_gpu = [rank for rank in ranks if not rank.on_host] or ranks
    return {rank.rank for rank in on_gpu if len(rank.times)}
