"""Finding host_bound: the GPU idles because the host issues work too slowly."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.idle import LAUNCH
from gpu_profile.analysis.findings.finding import FindingRow, FindingRule, Judgement, View
from gpu_profile.analysis.findings.idle_time import (
    IDLE_SHARE,
    format_idle_line,
    judge_state,
    list_places,
)

HOST_ADVICE = (
    "Issue less work per step from the host: larger batches, CUDA graphs (torch.compile "
    'mode="reduce-overhead"), fused or foreach optimizers; keep logging and Python work out of '
    "the step. Tracing adds a few microseconds to each launch, so measure it with --baseline."
)


def judge_host_bound(views: Sequence[View]) -> Judgement:
    """Find steps whose pace is that of the host's launches: short gaps before most operations."""
    idle_views = [view for view in views if view.share("idle_launch") >= IDLE_SHARE]
    return judge_state(
        "host_bound", "launch", idle_views, _launch_ms, _launch_evidence, HOST_ADVICE
    )


def _launch_ms(view: View) -> float:
    return view.ms("idle_launch")


def _launch_evidence(views: Sequence[View]) -> tuple[str, ...]:
    words = "with the GPU drained before the host issued its next operation"
    return (format_idle_line(views, _launch_ms, words), *list_places(views, LAUNCH))


RULE = FindingRule(
    kind="host_bound",
    title="Host-bound",
    judge=judge_host_bound,
    rows=(
        FindingRow(
            causes=("launch",),
            when="the GPU idles 10 % of the step by cause `launch` (see the idle causes below)",
        ),
    ),
    holds_tracing_cost=True,
    unclear_without_steps=lambda _finding: True,
    needs_all_kernels=True,
)
