"""Finding exposed_copy: the kernels wait for copies of pinned memory to the GPU."""

from collections.abc import Mapping, Sequence

from gpu_profile.analysis.activity.activity import COPY_TO_DEVICE, Activity
from gpu_profile.analysis.findings.facts.copies import CopyKey, CopyTime, sum_copies
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import LEAST_FREQUENCY, View
from gpu_profile.analysis.replay.edits.causes import EARLY_COPIES
from gpu_profile.analysis.store.database import Database

ADVICE = (
    "Copy the next batch on a stream of its own, a step ahead: non_blocking=True alone leaves a "
    "copy in the stream of the kernels. Or copy less: bytes in place of floats, and the numbers of "
    "classes in place of an image of each."
)

Copies = Mapping[CopyKey, CopyTime]


def collect_copies(activity: Activity, _: Database) -> Copies:
    """The large copies of one rank."""
    return sum_copies(activity)


def judge_exposed_copy(views: Sequence[View[Copies]]) -> Judgement:
    """Find copies of pinned memory to the GPU that no compute runs beside."""
    exposed = [view for view in views if view.is_costly(_measure_exposed(view))]
    if not exposed:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in exposed}))
    worst = max(exposed, key=_measure_exposed)
    evidence = (_describe(worst), f"seen on {format_ranks(ranks)}")
    return Judgement((Finding("exposed_copy", ranks, "pinned", evidence, ADVICE),))


def _measure_exposed(view: View[Copies]) -> float:
    """The ms a step in which pinned memory is copied to the GPU with no compute beside."""
    copy = view.fact.get((COPY_TO_DEVICE, False))
    if copy is None or view.frequency(copy.count) < LEAST_FREQUENCY:
        return 0.0
    return view.mean(copy.exposed_ns) / 1e6


def _describe(view: View[Copies]) -> str:
    copy = view.fact[COPY_TO_DEVICE, False]
    count, size = view.mean(copy.count), view.mean(copy.bytes)
    return (
        f"rank {view.rank}: {count:.1f} copies a step of pinned memory to the GPU, "
        f"{size / 1e6:.2f} MB at {copy.rate:.1f} GB/s, {_measure_exposed(view):.2f} ms of it with "
        "no compute beside"
    )


RULE = FindingRule(
    kind="exposed_copy",
    title="Exposed copies",
    collect=collect_copies,
    judge=judge_exposed_copy,
    rows=(
        FindingRow(
            causes=("pinned",),
            when=(
                "copies over 64 KiB of pinned memory to the GPU run with no compute beside, in "
                "every other step or more, and were called before the kernels ended that held "
                "them up, or right after the step's only wait for the GPU: the host could have "
                "called them before it"
            ),
        ),
    ),
    time_ms=lambda view, _: _measure_exposed(view),
    edit=lambda _finding: EARLY_COPIES,
)
