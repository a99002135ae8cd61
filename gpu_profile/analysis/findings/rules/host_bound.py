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
    idle_views = [view for view in views if _launch_ms(view) >= IDLE_SHARE * view.step_ms > 0]
    return judge_state(
        "host_bound", "launch", idle_views, _launch_ms, _launch_evidence, HOST_ADVICE
    )


def _launch_ms(view: View) -> float:
    """The idle time in a step before late launches.

    A blocking call takes the lead of a host that is faster than its GPU, so its gaps are not
    counted. A host that needs longer for a step than its GPU would be late without the call, too.
    """
    own, launch = view.mean(view.facts.states.own["busy"]) / 1e6, view.ms("idle_launch")
    return launch + (view.ms("idle_sync") if view.host_ms > own and launch else 0.0)


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
            when=(
                "the GPU idles 10 % of the step by cause `launch` (see the idle causes below). "
                "Cause `sync` counts too where the host needs longer for a step than the GPU"
            ),
        ),
    ),
    holds_tracing_cost=True,
    unclear_without_steps=lambda _finding: True,
    needs_all_kernels=True,
)
