"""Finding host_bound: the GPU idles because the host issues work too slowly."""

from collections.abc import Iterator, Sequence

import numpy as np

from gpu_profile.analysis.activity.idle import LAUNCH
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import (
    PARTIAL_SHARE,
    format_idle_line,
    is_costly,
    judge_state,
    list_places,
)
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.changes import Change, free_launches

# Beside pauses of the host, slow launches are named from 2 % of the step on, where the host gains
# less than 5 % of its GPU's work in a step: of a pause of 40 % it then hides an eighth.
LEAST_SHARE, LEAST_LEAD = 0.02, 0.05
HOST_ADVICE = (
    "Issue less work per step from the host: larger batches, CUDA graphs (torch.compile "
    'mode="reduce-overhead"), fused or foreach optimizers; keep logging and Python work out of '
    "the step. Tracing adds a few microseconds to each launch, so measure it with --baseline."
)


def judge_host_bound(views: Sequence[RankView]) -> Judgement:
    """Find steps whose pace is that of the host's launches: short gaps before most operations."""
    slow = [view for view in views if _is_slow(view)]
    return judge_state("host_bound", "launch", slow, _launch_ms, _launch_evidence, HOST_ADVICE)


def _is_slow(view: RankView) -> bool:
    return _idles_by_launches(view) or _is_without_lead(view)


def _idles_by_launches(view: RankView) -> bool:
    return is_costly(_launch_ms(view), PARTIAL_SHARE, view.step_ms)


def _is_without_lead(view: RankView) -> bool:
    """Whether its launches keep the host from a lead that would hide its other work.

    Launches that take longer than their kernels cost little by themselves, and a pause of the host
    then idles the GPU for all of its length: at most for the time that the kernels take.
    """
    launch, work = _launch_ms(view), view.mean(view.states.times["busy"]) / 1e6
    hidden = min(view.ms("idle_stall"), work)
    if not is_costly(launch, LEAST_SHARE, view.step_ms):
        return False
    if not is_costly(launch + hidden, PARTIAL_SHARE, view.step_ms):
        return False
    return _is_slower(view, view.common.host_times.issuing, 1 - LEAST_LEAD)


def _is_slower(view: RankView, host: IntArray, part: float = 1.0) -> bool:
    """Whether these times of the host exceed that part of its GPU's work in most steps."""
    more = view.steady(np.r_[0, host]) - part * _work(view)
    return view.has_steps and float(np.median(more)) > 0


def _work(view: RankView) -> IntArray:
    return view.steady(view.states.times["busy"])


def _launch_ms(view: RankView) -> float:
    """The idle time in a step before late launches.

    A blocking call takes the lead of a host that is faster than its GPU, so its gaps are not
    counted. A host that needs longer for a step than its GPU would be late without the call, too.
    """
    launch = view.ms("idle_launch")
    is_slower = launch and _is_slower(view, view.common.host_times.active)
    return launch + (view.ms("idle_sync") if is_slower else 0.0)


def _launch_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    words = "with the GPU drained before the host issued its next operation"
    line = format_idle_line(views, _launch_ms, words)
    return (line, *list_places(views, LAUNCH), *_list_leadless(views))


def _list_leadless(views: Sequence[RankView]) -> Iterator[str]:
    for view in views:
        if not _idles_by_launches(view):
            issuing = np.median(view.steady(np.r_[0, view.common.host_times.issuing])) / 1e6
            yield (
                f"rank {view.rank}: launching takes the host {issuing:.2f} ms a step (median), the "
                f"GPU's work {np.median(_work(view)) / 1e6:.2f} ms: no lead hides the host's "
                f"pauses ({view.ms('idle_stall'):.2f} ms idle)"
            )


RULE = FindingRule(
    kind="host_bound",
    title="Host-bound",
    collect=collect_nothing,
    judge=judge_host_bound,
    rows=(
        FindingRow(
            causes=("launch",),
            when=(
                "the GPU idles 8 % of the step by cause `launch` "
                "([idle causes](steps.md#why-the-gpu-idles)). Cause `sync` counts too where "
                "the host needs longer for most steps than the GPU. "
                "Cause `stall` counts too where launching alone takes longer than the GPU's work"
            ),
        ),
    ),
    holds_tracing_cost=True,
    unclear_without_steps=lambda _finding: True,
    needs_all_kernels=True,
    edit=lambda finding: Change("launches", free_launches(finding.ranks)),
)
