"""Finding host_bound: the GPU idles because the host issues work too slowly."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.idle.gaps import LAUNCH, STALL
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.idle_time import format_idle_line, judge_state, list_places
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.edits.causes import LAUNCHES, LAUNCHES_IN_CALLS

HOST_ADVICE = (
    "Issue less work per step from the host: larger batches, CUDA graphs (torch.compile "
    'mode="reduce-overhead"), fused or foreach optimizers; keep logging and Python work out of '
    "the step."
)


def judge_host_bound(views: Sequence[RankView]) -> Judgement:
    """Find steps that the host limits, by short gaps or by long ones."""
    judged = judge_short_gaps(views), judge_long_gaps(views)
    return Judgement(tuple(finding for each in judged for finding in each.findings))


def judge_short_gaps(views: Sequence[RankView]) -> Judgement:
    """Find steps whose pace is that of the host's launches: short gaps before most operations."""
    slow = [view for view in views if view.is_costly(_launch_ms(view))]
    return judge_state("host_bound", "launch", slow, _list_evidence, HOST_ADVICE)


def judge_long_gaps(views: Sequence[RankView]) -> Judgement:
    """Find gaps that are long for the step. The replay decides whether each is one pause, or many
    calls with short pauses between: XLA sets the parameters of each node of a graph.
    """
    slow = [view for view in views if not view.is_costly(_launch_ms(view))]
    slow = [view for view in slow if view.is_costly(_stall_ms(view))]
    return judge_state("host_bound", "calls", slow, _list_long_gaps, HOST_ADVICE)


def _launch_ms(view: RankView) -> float:
    return view.ms("idle_launch")


def _stall_ms(view: RankView) -> float:
    return view.ms("idle_stall")


def _list_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    words = "with the GPU drained before the host issued its next operation"
    return (format_idle_line(views, _launch_ms, words), *list_places(views, LAUNCH))


def _list_long_gaps(views: Sequence[RankView]) -> tuple[str, ...]:
    words = "idle while the host made calls that launch nothing, with short pauses between"
    return (format_idle_line(views, _stall_ms, words), *list_places(views, STALL))


def _edit(finding: Finding) -> Change:
    return LAUNCHES if finding.cause == "launch" else LAUNCHES_IN_CALLS


def _time_ms(view: RankView, cause: str) -> float:
    """Of long gaps nobody knows without a replay what they hold: `idle` tells them."""
    return _launch_ms(view) if cause == "launch" else 0.0


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
        FindingRow(
            causes=("calls",),
            when=(
                "the GPU idles by cause `stall`, but the replay gains nothing without the host's "
                "pauses, and something without launches: in a gap the host makes many calls that "
                "launch nothing"
            ),
        ),
    ),
    holds_tracing_cost=True,
    # The GPU also waits for launches while a program starts and loads its model.
    unclear_without_steps=lambda _finding: True,
    needs_all_kernels=True,
    time_ms=_time_ms,
    edit=_edit,
    place=lambda views, finding: find_longest_gap(LAUNCH if finding.cause == "launch" else STALL)(
        views, finding
    ),
)
