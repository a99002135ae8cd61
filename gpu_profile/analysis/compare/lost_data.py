"""Refuse a comparison where a rank lost a part of its kernels, steps or time.

What is lost takes no time: with 19 of 20 kernels of a rank gone, a regression of 20 % became an
improvement of 9 %. Another number of kernels alone is no loss: stages of a pipeline, experts, and
a changed program launch more or fewer.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gpu_profile.analysis.activity.edges import allowed_edge
from gpu_profile.analysis.activity.health import find_short, most_steps
from gpu_profile.analysis.compare.completeness import Completeness
from gpu_profile.analysis.compare.rank_sets import Runs
from gpu_profile.analysis.compare.samples import RankSamples
from gpu_profile.analysis.compare.steady import steady_steps
from gpu_profile.analysis.multi_report.survey import format_names
from gpu_profile.analysis.store.schema import KERNEL, NVTX, RUNTIME
from gpu_profile.analysis.tables.comm_kernels import comm_kernel
from gpu_profile.errors import ReportError

Run = Sequence[RankSamples]
_HINT = "Record that run again; `invoke diagnose` says more of what its recording misses"
_HINT_EXPORT = "Remove its .sqlite file: it is then exported again from the .nsys-rep"
# What every rank does alike in two runs of one program differs by less than 1 %; the loss of a part
# that can hide a regression is 5 % or more.
ALIKE, LOST = 0.01, 0.05


def check_complete(base: Runs, new: Runs) -> None:
    """Raise ReportError, with rank, table and count, if a rank of a run lost a part of its data.

    Kernels that a report holds twice are refused first: beside them the other run seems to lack a
    half.
    """
    runs = [("base", run) for run in base] + [("new", run) for run in new]
    for side, run in runs:
        _check_repeated(side, run)
    has_calls = any(rank.has_calls for _, run in runs for rank in _list_completenesses(run))
    for side, run in runs:
        _check_losses(side, run, has_calls)
        _check_extents(side, run)
        _check_spans(side, run)
    for side, run in runs:
        for other_side, other in runs:
            if other_side != side and _list_ranks(run) == _list_ranks(other):
                _check_against(side, run, other)


def _list_completenesses(run: Run) -> list[Completeness]:
    return [rank.completeness for rank in run if rank.completeness]


def _list_ranks(run: Run) -> list[int]:
    return sorted(rank.rank for rank in run)


def _make_loss_error(side: str, rank: int, loss: str) -> ReportError:
    return ReportError(f"the {side} run lost a part of rank {rank}: {loss}", _HINT)


def _check_repeated(side: str, run: Run) -> None:
    for rank in run:
        if rank.completeness and rank.completeness.repeated_kernels:
            count = rank.completeness.repeated_kernels
            what = f"{KERNEL} of rank {rank.rank} of the {side} run holds {count} kernels twice"
            raise ReportError(what, _HINT_EXPORT)


def _check_losses(side: str, run: Run, has_calls: bool) -> None:
    """Refuse lost events by the rank's own health. CUDA calls may be recorded on no rank at all."""
    for rank in run:
        for loss in rank.completeness.losses if rank.completeness else ():
            if has_calls or not loss.startswith(RUNTIME):
                raise _make_loss_error(side, rank.rank, loss)


def _check_extents(side: str, run: Run) -> None:
    """Refuse ranks that recorded fewer steps than the others, beyond a window's edges."""
    extents = [rank.extent for rank in _list_completenesses(run)]
    short = find_short(extents)
    if not short or 2 * len(short) > len(extents):
        return
    ranks = format_names(sorted({extent.rank for extent in short}))
    fewest, longest = (
        min(short, key=lambda extent: extent.steps),
        max(extent.span for extent in extents),
    )
    steps = f"{fewest.steps} of {most_steps(extents)} steps"
    raise ReportError(
        f"the {side} run lost a part of rank {ranks}: its tables hold {steps}, "
        f"{fewest.span / 1e9:.2f} of {longest / 1e9:.2f} s",
        _HINT,
    )


def _check_spans(side: str, run: Run) -> None:
    """Refuse a rank whose steps take less than half as long as as many steps of another rank.

    Ranks that meet in collectives wait for each other, so that their steps take equally long. The
    times of such a rank are of another clock, by which a slow rank seems to be a fast one.
    """
    meeting = {rank for rank, count in _average_collectives(run).items() if count >= 1}
    by_span = sorted((c.extent for c in _list_completenesses(run)), key=lambda extent: extent.span)
    # of several GPUs of a rank the one that recorded for longest
    extents = {extent.rank: extent for extent in by_span if extent.rank in meeting}
    longest = max(extents.values(), key=lambda extent: extent.span, default=None)
    for extent in extents.values():
        if longest and extent.steps == longest.steps > 1 and 2 * extent.span < longest.span:
            raise ReportError(
                f"the times of rank {extent.rank} of the {side} run are of another clock: its "
                f"{extent.steps} steps take {extent.span / 1e9:.3g} s, and as many of rank "
                f"{longest.rank}, which it meets in collectives, {longest.span / 1e9:.3g} s",
                _HINT,
            )


def _check_against(side: str, run: Run, other: Run) -> None:
    """Refuse a rank that lacks what it has in the other run, while its peers have the same."""
    _check_step_counts(side, run, other)
    checks: tuple[tuple[str, Callable[[Run], dict[int, float]], bool], ...] = (
        (f"{KERNEL} holds {{}} collectives a step", _average_collectives, False),
        (f"{KERNEL} holds {{}} kernels a launch", _average_kernels_a_launch, True),
        (f"{NVTX} holds {{}} instances of the range a step", _average_instances, True),
    )
    for text, measure, if_ranks_alike in checks:
        values, expected = measure(run), measure(other)
        rank = _find_odd_rank(values, expected, if_ranks_alike=if_ranks_alike)
        if rank is not None:
            loss = text.format(f"{values[rank]:.4g} of {expected[rank]:.4g}")
            raise _make_loss_error(side, rank, loss)


def _check_step_counts(side: str, run: Run, other: Run) -> None:
    """Refuse a rank with fewer steps than its peers, where all ranks of the other run have as many
    as these.

    Windows by time hold another number of steps in each run. The same number on all ranks of two
    runs is no chance.
    """
    counts = {rank.rank: len(rank.steps) for rank in run}
    usual = {len(rank.steps) for rank in other}
    short = [rank for rank, count in counts.items() if count not in usual]
    if len(usual) > 1 or not short or len(short) == len(counts):
        return
    rank, (steps,) = min(short, key=lambda rank: counts[rank]), usual
    if counts[rank] < steps - allowed_edge(steps):
        source = next(peer.steps.source for peer in other if peer.rank == rank)
        table = NVTX if source.startswith("range") else RUNTIME
        raise _make_loss_error(side, rank, f"{table} holds {counts[rank]} of {steps} steps")


def _find_odd_rank(
    values: dict[int, float], expected: dict[int, float], *, if_ranks_alike: bool
) -> int | None:
    """The first rank whose value is below that of the other run by LOST, where the rest is ALIKE.

    Where the ranks of the other run differ (stages of a pipeline), a changed program may change one
    rank. Only a collective is never changed on one rank alone.
    """
    if values.keys() != expected.keys():
        return None
    less = {
        rank: 1 - value / expected[rank] if expected[rank] else 0.0
        for rank, value in values.items()
    }
    odd = [rank for rank, part in less.items() if part > LOST]
    same = [rank for rank, part in less.items() if abs(part) <= ALIKE]
    if not odd or not same or len(odd) + len(same) < len(less):
        return None
    most, least = max(expected.values()), min(expected.values())
    alike = most - least <= ALIKE * most
    return odd[0] if alike or (len(odd) == 1 and not if_ranks_alike) else None


def _average_by_rank(run: Run, measure: Callable[[RankSamples, slice], float]) -> dict[int, float]:
    """A value of each rank by its steady steps; on several GPUs of one rank their sum."""
    sums: dict[int, float] = {}
    for rank, (first, stop) in zip(run, steady_steps(run), strict=True):
        steps = slice(first, stop) if len(rank.steps) else slice(None)
        sums[rank.rank] = sums.get(rank.rank, 0.0) + measure(rank, steps)
    return sums


def measure_kernels(run: Run) -> dict[int, float]:
    """The kernels a step by rank."""
    return _average_by_rank(run, _count_kernels)


def _count_kernels(rank: RankSamples, part: slice) -> float:
    return float(sum(float(np.mean(count[part])) for count, _ in rank.kernels.values()))


def _average_collectives(run: Run) -> dict[int, float]:
    return _average_by_rank(run, _count_collectives)


def _count_collectives(rank: RankSamples, part: slice) -> float:
    counts = (count for name, (count, _) in rank.kernels.items() if comm_kernel(name))
    return float(sum(float(np.mean(count[part])) for count in counts))


def _average_kernels_a_launch(run: Run) -> dict[int, float]:
    return _average_by_rank(run, _count_kernels_a_launch)


def _count_kernels_a_launch(rank: RankSamples, part: slice) -> float:
    if rank.completeness is None:
        return 0.0
    launches = float(np.mean(rank.completeness.launches[part]))
    return _count_kernels(rank, part) / launches if launches else 0.0


def _average_instances(run: Run) -> dict[int, float]:
    return _average_by_rank(run, _count_instances)


def _count_instances(rank: RankSamples, part: slice) -> float:
    if not len(rank.steps):
        return float(len(rank.times))
    first, stop, _ = part.indices(len(rank.steps))
    inside = (rank.step >= first) & (rank.step < stop)
    return np.count_nonzero(inside) / max(1, stop - first)
