"""The samples of one run: its steady steps, which every rank recorded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.steps.common_steps import common_steps, warm_up
from gpu_profile.analysis.compare.samples import Metric, RankSamples
from gpu_profile.analysis.compare.significance import FEWEST, Samples
from gpu_profile.errors import ReportError


@dataclass(frozen=True, eq=False)
class RunSamples:
    """One sample (ns) for each step or instance of one run, and what was left out.

    `warm_up`: leading steps left out. `left_out`: steps that a rank recorded and not every rank
    did, and `reason` says which rank lacks them.
    """

    times: Samples
    warm_up: int = 0
    left_out: int = 0
    reason: str = ""


def sample_run(ranks: Sequence[RankSamples], metric: Metric, side: str) -> RunSamples:
    """The samples of a run: of the slowest rank, or for the GPU, a kernel or a module the mean of
    the ranks.

    Only the steps that every rank recorded count, as in `diagnose`: a rank whose recording began
    late would pair its steps with the wrong ones of the others. Steps that are warm-up on any rank
    are left out on all ranks. Raises ReportError without samples, and where one rank has too few
    of them for a verdict and the others have enough.
    """
    # If some ranks have GPU work, host times of a rank without GPU work are not comparable.
    ranks = [rank for rank in ranks if not rank.on_host] or ranks
    times = _combine(ranks, metric, side)
    _check_fewest(ranks, len(times), side)
    steps = [rank.steps for rank in ranks]
    common = max((stop - first for first, stop in common_steps(steps)), default=0)
    left_out = max(map(len, steps)) - common
    reason = _explain(ranks, common) if left_out else ""
    return RunSamples(times, min(warm_up(steps), common), left_out, reason)


def _combine(ranks: Sequence[RankSamples], metric: Metric, side: str) -> Samples:
    times = [
        rank.times[((rank.step >= first) & (rank.step < stop)) | (len(rank.steps) == 0)]
        for rank, (first, stop) in zip(ranks, steady_steps(ranks), strict=True)
    ]
    times = [time for time in times if len(time)]
    if not times:
        raise ReportError(f"the {side} run has no {metric}", _format_hint(metric, ranks))
    common = min(len(time) for time in times)
    stacked = np.stack([time[:common] for time in times]).astype(np.float64)
    if not stacked.any():
        raise ReportError(f"the {side} run spends no time in {metric}", _format_hint(metric, ranks))
    if metric.kind in ("gpu", "kernel", "module"):
        return np.asarray(stacked.mean(axis=0))
    # The ranks wait for each other, so the slowest one's time is that of the step.
    return np.asarray(stacked.max(axis=0))


def steady_steps(ranks: Sequence[RankSamples]) -> list[tuple[int, int]]:
    """For each rank (first, last + 1) of the steps that all ranks have, less the warm-up."""
    steps = [rank.steps for rank in ranks]
    drop = warm_up(steps)
    return [(min(first + drop, stop), stop) for first, stop in common_steps(steps)]


def _check_fewest(ranks: Sequence[RankSamples], samples: int, side: str) -> None:
    """Raise ReportError if the ranks with fewest steps alone leave too few samples for a verdict.

    One rank of four steps would switch the gate off: "undecided" passes.
    """
    with_steps = [rank for rank in ranks if len(rank.steps)]
    if samples >= FEWEST or not with_steps:
        return
    fewest = min(len(rank.steps) for rank in with_steps)
    others = [rank for rank in with_steps if len(rank.steps) > fewest]
    first, stop = next(iter(steady_steps(others)), (0, 0))
    if stop - first >= FEWEST:
        short = sorted({rank.rank for rank in with_steps if len(rank.steps) == fewest})
        what = f"rank {', '.join(map(str, short))} of the {side} run has {fewest} steps"
        most = max(len(rank.steps) for rank in others)
        raise ReportError(
            f"{what}, too few to compare, and others have up to {most}",
            "Record that rank again; `invoke stats --table step_sum` counts the steps",
        )


def _explain(ranks: Sequence[RankSamples], common: int) -> str:
    counts = {rank.rank: len(rank.steps) for rank in ranks if len(rank.steps)}
    fewest, most = min(counts.values()), max(counts.values())
    if fewest == most:
        return f"the ranks recorded {most} steps each, {common} of them together"
    short = [str(rank) for rank, count in counts.items() if count == fewest]
    return f"rank {', '.join(short[:8])} recorded {fewest} of {most}"


def _format_hint(metric: Metric, ranks: Sequence[RankSamples]) -> str:
    if metric.kind == "step":
        return "Mark each step with an NVTX range called step"
    if metric.kind == "gpu":
        return "`invoke diagnose` says what the recording misses"
    if metric.kind == "module":
        return (
            "Record it with --annotate modules; `invoke stats --table module_sum` lists the names"
        )
    names = {name for rank in ranks for name in rank.kernels}
    close = sorted(name for name in names if metric.name.lower() in name.lower())
    if metric.kind == "kernel" and close:
        return f"There is {', '.join(close[:3])}"
    return "`invoke stats` lists the names"
