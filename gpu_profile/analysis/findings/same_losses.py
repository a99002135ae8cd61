"""Lines of evidence of a finding whose loss is, wholly or mostly, that of an earlier one."""

from dataclasses import replace

from gpu_profile.analysis.findings.finding import SHOWN_MS, Finding, format_ranks

MOST = 0.5


def add_same_loss(finding: Finding, other: Finding, left_ms: float, part: str = "") -> Finding:
    """The finding with a line of what it gains (ms a step) when the cause of `other` is gone."""
    more = f"{left_ms:.2f} ms a step" if left_ms >= SHOWN_MS else "nothing"
    line = (
        f"{part}the same loss as {other.kind} on {format_ranks(other.ranks)}: when that is gone, "
        f"this gains {more} more"
    )
    return replace(finding, evidence=(*finding.evidence, line))


def add_mostly_same_loss(
    finding: Finding, other: Finding, other_ms: float, alone_ms: float, both_ms: float
) -> Finding:
    """The finding with such a line if most of its gain is gone with the other's. Gains of a replay:
    `other_ms` without the other's cause, `alone_ms` without this one, `both_ms` without both.

    A finding that more or fewer steps hold than are replayed has that portion of what is left, too.
    """
    left_ms = max(0.0, both_ms - other_ms)
    if left_ms >= MOST * alone_ms:
        return finding
    left_ms *= finding.cost_ms / alone_ms
    return add_same_loss(finding, other, left_ms, "most of it is ")
