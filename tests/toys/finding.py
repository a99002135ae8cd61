"""Finding toy: a rank has steps, and makes copies."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.activity import COPY, Activity
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.store.database import Database


@dataclass(frozen=True)
class Copies:
    """How many of a report's copies a rank made."""

    count: int
    total: int


def _collect(activity: Activity, database: Database) -> Copies:
    total = database.count("CUPTI_ACTIVITY_KIND_MEMCPY")
    return Copies(int((activity.ops.kind == COPY).sum()), total)


def _judge(views: Sequence[View[Copies]]) -> Judgement:
    ranks = tuple(view.rank for view in views)
    copies = views[0].fact
    evidence = (
        f"it has {views[0].steps} steady steps",
        f"it made {copies.count} of {copies.total} copies",
    )
    return Judgement((Finding("toy", ranks, "play", evidence, "Go on playing."),))


RULE = FindingRule(
    kind="toy",
    title="Steps to play with",
    collect=_collect,
    judge=_judge,
    rows=(FindingRow(causes=("play",), when="a rank has steps"),),
)
