"""The most that the cause of a finding can cost: its idle or exposed time, told as "at most".

It serves all rules, where nothing can be replayed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.findings.view import View

IsReplayed = Callable[[Finding], bool]


def limit_costs(
    findings: Sequence[Finding],
    by_kind: Mapping[str, Sequence[View[Any]]],
    is_replayed: IsReplayed = lambda finding: False,
    control_ms: float = 0.0,
) -> list[Finding]:
    """The findings with the most that each can cost, without those that are not worth it.

    A cost that will be replayed decides by itself what it is worth. `control_ms`: the step without
    the profiler, 0 where it is not known. No cause costs more than that.
    """
    limited = (
        _limit_cost(finding, by_kind[finding.kind], is_replayed, control_ms) for finding in findings
    )
    return [finding for finding in limited if finding]


def _limit_cost(
    finding: Finding, views: Sequence[View[Any]], is_replayed: IsReplayed, control_ms: float
) -> Finding | None:
    ranks = finding.payers or finding.ranks
    times = [
        (view, min(ms, _find_most_ms(finding, view, control_ms)))
        for view in views
        if view.rank in ranks
        and (ms := RULES[finding.kind].time_ms(view, finding.cause)) is not None
    ]
    if not times:
        return finding
    if not is_replayed(finding) and not any(view.is_costly(ms) for view, ms in times):
        return None
    return replace(finding, at_most_ms=float(np.mean([ms for _, ms in times])))


def _find_most_ms(finding: Finding, view: View[Any], control_ms: float) -> float:
    """What a cause costs at most without the profiler: that step, and of it only the time in which
    the GPU idles if the cause is idle time. The profiler makes no operation of the GPU shorter.
    """
    if not control_ms:
        return float("inf")
    is_idle = RULES[finding.kind].unclear_without_steps(finding)
    busy_ms = view.mean(view.common.states.times["busy"]) / 1e6 if is_idle else 0.0
    return max(control_ms - busy_ms, 0.0)
