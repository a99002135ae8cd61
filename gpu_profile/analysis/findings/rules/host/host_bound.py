"""Finding host_bound: the GPU idles because the host issues work too slowly."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.idle.gaps import LAUNCH
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import format_idle_line, judge_state, list_places
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.edits.causes import LAUNCHES

HOST_ADVICE = (
    "Issue less work per step from the host: larger batches, CUDA graphs (torch.compile "
    'mode="reduce-overhead"), fused or foreach optimizers; keep logging and Python work out of '
    "the step."
)


def judge_host_bound(views: Sequence[RankView]) -> Judgement:
    """Find steps whose pace is that of the host's launches: short gaps before most operations."""
    slow = [view for view in views if view.is_costly(_launch_ms(view))]
    return judge_state("host_bound", "launch", slow, _list_evidence, HOST_ADVICE)


def _launch_ms(view: RankView) -> float:
    return view.ms("idle_launch")


def _list_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    words = "with the GPU drained before the host issued its next operation"
    return (format_idle_line(views, _launch_ms, words), *list_places(views, LAUNCH))


RULE = FindingRule(
    kind="host_bound",
    title="Host-bound",
    collect=collect_nothing,
    judge=judge_host_bound,
    rows=(
        FindingRow(
            causes=("launch",),
            when=("the GPU idles by cause `launch` ([idle causes](steps.md#why-the-gpu-idles))"),
        ),
    ),
    holds_tracing_cost=True,
    # The GPU also waits for launches while a program starts and loads its model.
    unclear_without_steps=lambda _finding: True,
    needs_all_kernels=True,
    time_ms=lambda view, _: _launch_ms(view),
    edit=lambda _finding: LAUNCHES,
    place=find_longest_gap(LAUNCH),
)
