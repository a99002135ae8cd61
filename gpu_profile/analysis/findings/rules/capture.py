"""Findings about the capture itself: lost events, missing ranks or steps, profiler overhead."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.health import Health, ReportHealth
from gpu_profile.analysis.activity.idle import CAUSES, PROFILER
from gpu_profile.analysis.findings.finding import (
    Finding,
    FindingRow,
    FindingRule,
    Judgement,
    View,
    format_ranks,
)

# The edges of a window cut off a few launches; more than 1 % are lost events.
LOST_SHARE = 0.01
# A rank may lack 10 % of the steps in a recording of the whole program, and 40 % in a window.
WHOLE_EDGE, WINDOW_EDGE = 0.1, 0.4
# A window cuts off by the time of the host's calls, and a host can be this many launches ahead of
# its GPU (the depth of CUDA's launch queue): by as many steps as they make ranks may differ.
QUEUE_DEPTH = 1024
OVERHEAD_SHARE = 0.05
ADVICE = (
    "Capture less: a shorter window (--preset, --capture-range), fewer kinds of events; let the "
    "program end by itself, or flush with --cuda-flush-interval."
)


def judge_capture(views: Sequence[View], reports: Sequence[ReportHealth]) -> Judgement:
    """Findings about lost events, ranks without GPU work or cut short, and profiler overhead."""
    findings = [
        *_find_lost(reports),
        *_find_empty(reports),
        *_find_short(views),
        *_find_overhead(views),
    ]
    return Judgement(tuple(findings))


def _make_finding(ranks: Sequence[int], cause: str, ms: float, *evidence: str) -> Finding:
    return Finding("capture", tuple(sorted(set(ranks))), cause, ms, evidence, ADVICE)


def _find_lost(reports: Sequence[ReportHealth]) -> list[Finding]:
    lines, ranks = [], []
    for report in reports:
        bad = [rank for rank in report.ranks if _is_losing(rank)]
        ranks += [rank.rank for rank in (bad or (report.ranks if report.losses else ()))]
        lines += [_loss_line(rank) for rank in bad]
        lines += [f"{report.report}: {text}" for text in report.losses]
    return [_make_finding(ranks, "lost_events", 0.0, *lines)] if lines else []


def _is_losing(rank: Health) -> bool:
    orphans = rank.orphans > LOST_SHARE * rank.operations
    return orphans or rank.unseen > LOST_SHARE * rank.launches


def _loss_line(rank: Health) -> str:
    return (
        f"rank {rank.rank}: {rank.unseen} of {rank.launches} kernel launches have no kernel, "
        f"{rank.orphans} of {rank.operations} operations no launch"
    )


def _find_empty(reports: Sequence[ReportHealth]) -> list[Finding]:
    """Reports without GPU work, if other reports of the run have some."""
    reports = [report for report in reports if not report.joined]
    names = [report.report for report in reports if not report.ranks]
    if not names or len(names) == len(reports):
        return []
    return [
        _make_finding((), "no_gpu_work", 0.0, *(f"{name}: no GPU work recorded" for name in names))
    ]


def _find_short(views: Sequence[View]) -> list[Finding]:
    """Ranks with fewer steps than the others, because their recording began late or ended early.

    A window (--delay, --duration, a capture range, stop) cuts off steps at its edges, and not as
    many on each rank: nsys may start seconds apart on two ranks. A rank that recorded for as long
    as the others is not reported, even with fewer steps.
    """
    spans = {view.rank: view.facts.states.span for view in views}
    longest = max(spans.values(), default=0)
    counts = {view.rank: len(view.facts.states.steps) for view in views}
    most = max(counts.values(), default=0)
    if not most:
        return []
    limit = most - _edge(views, most)
    short = [
        rank
        for rank, count in counts.items()
        if count < limit and spans[rank] <= longest * (most + count) / (2 * most)
    ]
    if not short or 2 * len(short) > len(counts):
        return []
    line = f"{format_ranks(short)}: {min(counts[rank] for rank in short)} of {most} steps recorded"
    return [_make_finding(short, "cut_short", 0.0, line)]


def _edge(views: Sequence[View], most: int) -> float:
    """How many steps fewer than `most` a rank may have recorded."""
    if all(view.facts.states.start_up for view in views):
        return max(1, WHOLE_EDGE * most)
    launches = max(view.mean(view.facts.kernel_count) for view in views if view.has_steps)
    # Each of the two edges cuts a step as well.
    return max(1, WINDOW_EDGE * most, 2 + QUEUE_DEPTH / max(launches, 1))


def _find_overhead(views: Sequence[View]) -> list[Finding]:
    state = f"idle_{CAUSES[PROFILER]}"
    slow_views = [view for view in views if view.share(state) >= OVERHEAD_SHARE]
    if not slow_views:
        return []
    ms = sum(view.ms(state) for view in slow_views) / len(slow_views)
    ranks = format_ranks(view.rank for view in slow_views)
    line = f"{ranks}: the profiler's own work idles the GPU {ms:.2f} ms"
    return [_make_finding([view.rank for view in slow_views], "overhead", ms, f"{line} a step")]


RULE = FindingRule(
    kind="capture",
    title="Capture",
    judge_reports=judge_capture,
    rows=(
        FindingRow(
            causes=("lost_events",),
            when=(
                "1 % of launches or kernels lack their other half, or nsys says that it lost events"
            ),
        ),
        FindingRow(
            causes=("no_gpu_work",),
            when="a report holds no GPU work, and others of the run do",
        ),
        FindingRow(
            causes=("cut_short",),
            when=(
                "a rank lacks 10 % of the steps (in a window, whose edges cut steps off, 40 %, and "
                "more steps than fit in the launch queue of 1,024)"
            ),
        ),
        FindingRow(
            causes=("overhead",),
            when="the GPU idles 5 % of the step by cause `profiler`",
        ),
    ),
)
