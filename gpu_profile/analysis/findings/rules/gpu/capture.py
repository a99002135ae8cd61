"""Findings about the capture itself: lost events, missing ranks or steps, profiler overhead."""

import re
from collections.abc import Sequence
from dataclasses import replace

from gpu_profile.analysis.activity.failed_import import FAILED_IMPORT
from gpu_profile.analysis.activity.health import (
    Extent,
    Health,
    ReportHealth,
    find_short,
    most_steps,
)
from gpu_profile.analysis.activity.idle.gaps import CAUSES, PROFILER
from gpu_profile.analysis.activity.serving.processes import OtherProcess
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView

OVERHEAD, STATE = "overhead", f"idle_{CAUSES[PROFILER]}"
ADVICE = (
    "Capture less: a shorter window (--preset, --capture-range), fewer kinds of events; let the "
    "program end by itself, or flush with --cuda-flush-interval."
)
WINDOW_ADVICE = (
    "Record a longer window, `invoke record --seconds 5`: what was queued when it began or ended "
    "is not in it, nor the last events of each thread that CUPTI had not handed over."
)
SILENCE_ADVICE = (
    "What came then is not judged. Record a part of the loop: `invoke profile --record manual`, "
    "then `invoke record --seconds 5` while it runs; or --delay and --duration."
)
IMPORT_ADVICE = (
    "Record again without the ranges of XLA, on which nsys 2025.3.1 fails "
    "(--nvtx-domain-exclude TSL), or with --cuda-graph-trace node."
)
_WINDOW = re.compile(r"rank\d+\.[^.]+\.\d+\.\w+")
"""A report that `record` ended has the window's number: `rank0.node.2.sqlite`."""
FORKS = (
    "Have nsys follow the workers: start them by spawn (VLLM_WORKER_MULTIPROC_METHOD=spawn), or "
    "give --nsys-args=--trace-fork-before-exec=true. Workers of Ray or another daemon need an nsys "
    "of their own."
)
FEWEST_LAUNCHES = 8
"""Fewer are of a process that looks what its GPU can do."""


def judge_capture(views: Sequence[RankView], reports: Sequence[ReportHealth]) -> Judgement:
    """Findings about lost events, ranks without GPU work or cut short, and profiler overhead."""
    findings = [
        *_find_lost(reports),
        *_find_empty(reports),
        *_find_silent(reports),
        *_find_short(views),
        *_find_overhead(views),
    ]
    return Judgement(tuple(findings), _list_missing(views))


def _make_finding(ranks: Sequence[int], cause: str, *evidence: str) -> Finding:
    return Finding("capture", tuple(sorted(set(ranks))), cause, evidence, ADVICE)


def _find_lost(reports: Sequence[ReportHealth]) -> list[Finding]:
    lines, ranks, advices = [], [], dict[str, None]()
    for report in reports:
        bad = [rank for rank in report.ranks if rank.list_losses()]
        if not bad and not report.losses:
            continue
        ranks += [rank.rank for rank in (bad or report.ranks)]
        lines += [_describe_loss(rank) for rank in bad]
        lines += [f"{report.report}: {text}" for text in report.losses]
        advices[_choose_advice(report, bad)] = None
    finding = _make_finding(ranks, "lost_events", *lines)
    return [replace(finding, advice=" ".join(advices))] if lines else []


def _choose_advice(report: ReportHealth, bad: Sequence[Health]) -> str:
    if any(text.startswith(FAILED_IMPORT) for text in report.losses):
        return IMPORT_ADVICE
    if any(rank.silence for rank in bad):
        return SILENCE_ADVICE
    return WINDOW_ADVICE if _WINDOW.fullmatch(report.report) else ADVICE


def _describe_loss(rank: Health) -> str:
    untimed = (
        f", {rank.untimed_kernels} of {rank.kernels} kernels no duration"
        if rank.untimed_kernels
        else ""
    )
    count = rank.after_last
    more = f", {count} more were launched after the last kernel" if count else ""
    silence = rank.silence
    silent = f"; the recording of the GPU ends {silence.to_text()}" if silence else ""
    return (
        f"rank {rank.rank}: {rank.unseen_launches} of {rank.launches} kernel launches have no "
        f"kernel, {rank.orphans} of {rank.operations} operations no launch{untimed}{more}{silent}"
    )


def _find_empty(reports: Sequence[ReportHealth]) -> list[Finding]:
    """Reports without GPU work, if other reports of the run have some."""
    reports = [report for report in reports if not report.is_joined]
    names = [report.report for report in reports if not report.ranks]
    if not names or len(names) == len(reports):
        return []
    lines = (f"{name}: no GPU work recorded" for name in names)
    return [_make_finding((), "no_gpu_work", *lines)]


def _find_silent(reports: Sequence[ReportHealth]) -> list[Finding]:
    """Processes that launch kernels or mark iterations, and have none, beside others that do."""
    lines = [
        f"{report.report}: {process.to_text()} {_tell_work(process)}, and none of its kernels was "
        "recorded"
        for report in reports
        if report.ranks
        for process in report.others
        if max(process.launches, process.marks) >= FEWEST_LAUNCHES
    ]
    return [replace(_make_finding((), "no_gpu_work", *lines), advice=FORKS)] if lines else []


def _tell_work(process: OtherProcess) -> str:
    if process.launches:
        return f"launched {process.launches} kernels and graphs"
    return f"marks {process.marks} iterations"


def _list_missing(views: Sequence[RankView]) -> tuple[str, ...]:
    """The ranks of an engine's communicators that are in no report, as NCCL numbers them."""
    if not any(view.states.steps.are_iterations for view in views):
        return ()
    sizes, present = dict[int, int](), dict[int, set[int]]()
    for view in views:
        for communicator, (rank, size) in view.states.collectives.members.items():
            sizes[communicator] = size
            present.setdefault(communicator, set()).add(rank)
    missing = {
        (size, tuple(sorted(set(range(size)) - present[communicator])))
        for communicator, size in sizes.items()
    }
    return tuple(
        f"workers that were not recorded: {format_ranks(ranks)} of a communicator of {size} are "
        "in no report"
        for size, ranks in sorted(missing)
        if ranks
    )


def _find_short(views: Sequence[RankView]) -> list[Finding]:
    """Ranks whose recording began late or ended early, if they are at most half of the ranks."""
    extents = [_get_extent(view) for view in views]
    short = find_short(extents)
    if not short or 2 * len(short) > len(extents):
        return []
    ranks = [extent.rank for extent in short]
    fewest = min(extent.steps for extent in short)
    line = f"{format_ranks(ranks)}: {fewest} of {most_steps(extents)} steps recorded"
    return [_make_finding(ranks, "cut_short", line)]


def _get_extent(view: RankView) -> Extent:
    states = view.states
    return Extent(
        rank=view.rank,
        steps=len(states.steps),
        span=states.span,
        kernels=view.mean(view.common.kernel_count) if view.has_steps else 0.0,
        has_start_up=states.start_up is not None,
    )


def _find_overhead(views: Sequence[RankView]) -> list[Finding]:
    slow_views = [view for view in views if view.is_costly(view.ms(STATE))]
    if not slow_views:
        return []
    ms = sum(view.ms(STATE) for view in slow_views) / len(slow_views)
    ranks = format_ranks(view.rank for view in slow_views)
    line = f"{ranks}: the profiler's own work idles the GPU {ms:.2f} ms"
    return [_make_finding([view.rank for view in slow_views], OVERHEAD, f"{line} a step")]


RULE = FindingRule(
    kind="capture",
    title="Capture",
    collect=collect_nothing,
    judge_reports=judge_capture,
    time_ms=lambda view, cause: view.ms(STATE) if cause == OVERHEAD else None,
    rows=(
        FindingRow(
            causes=("lost_events",),
            when=(
                "1 % of launches or kernels lack their other half, marks of steps or XLA's of its "
                "modules go on without GPU work, or nsys says that it lost events"
            ),
        ),
        FindingRow(
            causes=("no_gpu_work",),
            when=(
                "a report holds no GPU work, and others of the run do; or one of a report's "
                "processes launches kernels or marks iterations, and has none"
            ),
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
            when="the GPU idles by cause `profiler`",
        ),
    ),
)
