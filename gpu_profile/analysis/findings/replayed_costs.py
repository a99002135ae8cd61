"""The costs of findings by replay: the step now less the step replayed without the cause."""

from collections.abc import Sequence
from dataclasses import replace

from gpu_profile.analysis.findings.finding import Finding, format_ranks
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.replay.changes import Apply, combine
from gpu_profile.analysis.replay.plan import LEAST_SHARE, Plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow import Shadow
from gpu_profile.analysis.replay.weights import Weights

MANY = 1_000
"""More than a plan has items: the place of a finding that it does not name."""


def replay_costs(
    findings: Sequence[Finding], replay: Replay | str, plan: Plan | str, shadow: Shadow | None
) -> list[Finding]:
    """The findings with their replayed costs: first those of the plan in its order, then the
    largest cost first. A GPU that waits for launches costs more than the cause of it, which the
    plan names first.

    A loss of two causes is told once: the second finding says what it gains when the first is gone.
    Without a replay the costs are the most that the causes can cost. With a `shadow` they are of
    the program without the profiler.
    """
    if isinstance(replay, str) or isinstance(plan, str):
        return sorted(findings, key=_sort_key)
    gains = _Gains(replay, shadow)
    kinds = [item.change.kinds for item in plan.items]
    costs = sorted((gains.add_cost(finding) for finding in findings), key=_sort_key)
    costs.sort(
        key=lambda finding: next(
            (n for n, kinds_of_item in enumerate(kinds) if finding.kind in kinds_of_item), MANY
        )
    )
    return [gains.name_same_loss(finding, costs[:place]) for place, finding in enumerate(costs)]


class _Gains:
    """What changes save in a step, with or without what the profiler adds."""

    def __init__(self, replay: Replay, shadow: Shadow | None) -> None:
        self._replay = replay
        self._weights = shadow.weights if shadow else Weights.of(replay.graph)
        self._step_ms = shadow.step_ms if shadow else replay.step_ms

    def add_cost(self, finding: Finding) -> Finding:
        change = RULES[finding.kind].edit(finding)
        if change is None or not finding.per_step:
            return finding
        gain = max(0.0, self._predict(change.apply))
        if change.bounds is None:
            return replace(finding, replayed_ms=gain)
        least, most = (max(0.0, self._predict(bound)) for bound in change.bounds)
        return replace(finding, replayed_ms=gain, range_ms=(least, most))

    def name_same_loss(self, finding: Finding, earlier: Sequence[Finding]) -> Finding:
        """The finding with a line of evidence if an earlier one takes most of its gain away."""
        change, least = _find_edit(finding), LEAST_SHARE * self._step_ms
        if change is None or not finding.replayed_ms or finding.replayed_ms < least:
            return finding
        for other in earlier:
            first = _find_edit(other)
            if first is None or not other.replayed_ms:
                continue
            left = self._predict(combine((first, change))) - other.replayed_ms
            if left < least:
                return _add_line(finding, other, max(0.0, left))
        return finding

    def _predict(self, change: Apply) -> float:
        weights = change(self._replay.graph, self._weights)
        return self._step_ms - self._replay.predict_step(weights)


def _find_edit(finding: Finding) -> Apply | None:
    change = RULES[finding.kind].edit(finding)
    return change.apply if change else None


def _add_line(finding: Finding, other: Finding, left_ms: float) -> Finding:
    line = (
        f"the same loss as {other.kind} on {format_ranks(other.ranks)}: when that is gone, this "
        f"gains {left_ms:.2f} ms a step more"
    )
    return replace(finding, evidence=(*finding.evidence, line))


def _sort_key(finding: Finding) -> tuple[object, ...]:
    return (-round(finding.cost_ms, 3), finding.kind, finding.ranks)
