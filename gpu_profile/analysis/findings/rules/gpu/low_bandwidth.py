"""Finding low_bandwidth: copies or collectives run far below the rate of their link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.findings.evidence.slow_links import LinkFacts, judge_links
from gpu_profile.analysis.findings.facts.copies import (
    COPY_SHARE,
    DIRECTIONS,
    CopyKey,
    CopyTime,
    sum_copies,
)
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.store.database import Database

# Pinned transfers reach 12 GB/s on PCIe 3 x16, 25 on PCIe 4, 55 on PCIe 5. Below 5 GB/s the link
# or the host's memory is at fault. Small copies are slower anyway: judge 1 MiB and more.
SLOW_GB_PER_S, LARGE_BYTES = 5.0, 1 << 20
# A rank at less than half of the others' rate has a worse path (another socket, fewer lanes).
SLOW_AGAINST_OTHERS = 0.5
BANDWIDTH_ADVICE = (
    "Check the link (nvidia-smi topo -m; nvidia-smi -q for PCIe generation and width) and bind "
    "the process to the CPUs and memory next to its GPU."
)


@dataclass(frozen=True, eq=False)
class Bandwidth(LinkFacts):
    """What links can do, by the GPU's model, and the rank's large `copies`."""

    copies: Mapping[CopyKey, CopyTime]


def collect_bandwidth(activity: Activity, _: Database) -> Bandwidth:
    """The GPU and the copies of one rank."""
    return Bandwidth(activity.gpu, sum_copies(activity))


def judge_low_bandwidth(views: Sequence[View[Bandwidth]]) -> Judgement:
    """Find large pinned copies that are slow in absolute terms or against the other ranks, and
    collectives that are slow against the GPUs' links.
    """
    findings = []
    for kind, direction in DIRECTIONS.items():
        rates = {view.rank: _compute_copy_rate(view, kind) for view in views}
        positive_rates = [rate for rate in rates.values() if rate]
        usual = float(np.median(positive_rates)) if len(positive_rates) > 2 else 0.0
        limit = max(SLOW_GB_PER_S, SLOW_AGAINST_OTHERS * usual)
        slow = [view for view in views if 0 < rates[view.rank] < limit]
        if slow:
            findings.append(_make_finding(slow, kind, direction, usual))
    links = judge_links(views)
    return Judgement((*findings, *links.findings), links.unjudged)


def _compute_copy_rate(view: View[Bandwidth], kind: int) -> float:
    """GB/s of the rank's large pinned copies; 0 if their time is too short to judge."""
    copy = view.fact.copies.get((kind, False))
    if copy is None or not copy.count[0] or copy.bytes[0] < LARGE_BYTES * copy.count[0]:
        return 0.0
    return copy.rate if view.mean(copy.time) / 1e6 >= COPY_SHARE * view.step_ms else 0.0


def _make_finding(
    views: Sequence[View[Bandwidth]], kind: int, direction: str, usual: float
) -> Finding:
    ranks = tuple(sorted({view.rank for view in views}))
    copies = [view.fact.copies[kind, False] for view in views]
    rates = ", ".join(
        f"rank {v.rank} {c.rate:.1f} GB/s" for v, c in zip(views, copies, strict=True)
    )
    evidence = [f"pinned copies {direction} of 1 MiB and more: {rates}"]
    evidence += [f"the typical rank has {usual:.1f} GB/s"] if usual else []
    return Finding("low_bandwidth", ranks, "copy", tuple(evidence), BANDWIDTH_ADVICE)


def _explains(findings: Sequence[Finding], other: Finding) -> bool:
    """Copies over a slow link are exposed because they are slow."""
    return other.kind == "exposed_copy" and any(each.cause == "copy" for each in findings)


def _measure_time(view: View[Bandwidth], cause: str) -> float:
    """The time (ms) of exposed transfers, or of copies with no compute beside."""
    if cause == "links":
        return view.ms("transfer")
    copies = [copy for (_, pageable), copy in view.fact.copies.items() if not pageable]
    return sum(view.mean(copy.exposed_ns) for copy in copies) / 1e6


RULE = FindingRule(
    kind="low_bandwidth",
    title="Low bandwidth",
    collect=collect_bandwidth,
    judge=judge_low_bandwidth,
    time_ms=_measure_time,
    explains=_explains,
    rows=(
        FindingRow(
            causes=("links",),
            when="collectives run at under 15 % of the GPUs' NVLink",
        ),
        FindingRow(
            causes=("copy",),
            when=(
                "pinned copies of 1 MiB and more take 1 % of the step and run at under 5 GB/s, or "
                "under half of the other ranks' rate"
            ),
        ),
    ),
)
