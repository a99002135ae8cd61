"""The cost of each finding: the step now less the step replayed without the cause.

A finding that costs less than LEAST_SHARE of the step is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_profile.analysis.findings.facts.rare_pauses import RareCauses
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.same_losses import add_mostly_same_loss, add_same_loss
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.multi_report.forked_copy import map_in_copies
from gpu_profile.analysis.replay.changes import LEAST_SHARE, Apply, Change, combine
from gpu_profile.analysis.replay.edits.causes import LONE_PAUSES, PAUSES
from gpu_profile.analysis.replay.plan.make_plan import ALIKE
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import replay_prices
from gpu_profile.analysis.replay.shadow.host_scale import FACTORS
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.weights import Weights

MOST_PORTION = 4.0
"""A cause that all steps hold more times as much as the replayed ones is not in the replay."""
THREAD = "a thread that does that work beside the step, as slowly"
"""Another fix of pauses."""
MANY = 1_000
"""More than a plan has items: the place of a finding that it does not name."""


def has_edit(finding: Finding) -> bool:
    """Whether a replay can tell what the finding costs."""
    return RULES[finding.kind].edit(finding) is not None


def replay_costs(
    findings: Sequence[Finding],
    replay: Replay | str,
    plan: Plan | str,
    shadow: Shadow | None,
    rare: RareCauses,
) -> list[Finding]:
    """The findings with their replayed costs: first those of the plan in its order, then the
    largest cost first, trades after others; last those that cost something only when the plan's
    first items are gone. A GPU that waits for launches costs more than the cause of it, which the
    plan names first.

    A loss of two causes is told once: the second finding says what it gains when the first is gone.
    Without a replay the costs are the most that the causes can cost. With a `shadow` they are of
    the program without the profiler.
    """
    if isinstance(replay, str) or isinstance(plan, str):
        apart = (f for f in findings if not any(_includes(other, f) for other in findings))
        return sorted(apart, key=_sort_key)
    gains = _Gains(replay, plan, shadow, rare)
    replayed = map_in_copies(gains.add_cost, findings, replay.processes)
    costs = [cost for cost in replayed if cost]
    costs.sort(key=_sort_key)
    costs.sort(key=gains.find_turn)
    earlier = [costs[:place] for place in range(len(costs))]
    pairs = list(zip(costs, earlier, strict=True))
    kept = map_in_copies(lambda pair: gains.tell_same_loss(*pair), pairs, replay.processes)
    return [finding for finding in kept if finding]


def _includes(finding: Finding, other: Finding) -> bool:
    """Whether a finding tells the loss of the other one, too."""
    return other.kind in finding.includes and {*other.ranks} <= {*finding.ranks}


def _find_place(finding: Finding, plan: Plan) -> int:
    """The number of the plan's item that removes the finding's cause; MANY without one."""
    if not has_edit(finding):
        return MANY
    places = (n for n, item in enumerate(plan.items) if _removes(item.change, finding))
    return next(places, MANY)


def _removes(change: Change, finding: Finding) -> bool:
    is_of_ranks = change.rank is None or change.rank in finding.ranks
    return finding.kind in change.kinds and is_of_ranks


class _Gains:
    """What changes save in a step, with or without what the profiler adds."""

    def __init__(self, replay: Replay, plan: Plan, shadow: Shadow | None, rare: RareCauses) -> None:
        self._replay, self._plan = replay, plan
        self._shadow, self._rare = shadow, rare
        self._weights = shadow.weights if shadow else Weights.of(replay.graph)
        self._step_ms = shadow.step_ms if shadow else replay.step_ms
        self._least_ms = LEAST_SHARE * self._step_ms

    def add_cost(self, finding: Finding) -> Finding | None:
        """The finding with its cost; None if that is too little, now and after the plan's items."""
        change = RULES[finding.kind].edit(finding)
        if change is None or not finding.per_step:
            return finding
        if not self._is_certain(finding, change) or self._plan.has_gain(change.unless):
            return None
        portion = self._rare.portions.get(finding.kind, 1.0)
        if portion > MOST_PORTION:
            return finding if finding.at_most_ms >= self._least_ms else None
        replayed = self._predict_change(change)
        gain = portion * self._correct_pauses(finding, change, replayed)
        if gain >= self._least_ms:
            finding = self._tell_more(self._tell_replayed(finding, replayed, gain), change)
            bounds = self._predict_range(finding, change, gain)
            finding = self._tell_parts(finding, change)
            finding = self._tell_other_fixes(finding, change, replayed)
            return replace(finding, replayed_ms=gain, range_ms=bounds)
        place = _find_place(finding, self._plan)
        return self._tell_later_gain(finding, gain, place) if 0 < place < MANY else None

    def _tell_more(self, finding: Finding, change: Change) -> Finding:
        """The finding with a line of what else its change takes away."""
        line = change.describe(self._replay.graph) if change.describe else ""
        return replace(finding, evidence=(*finding.evidence, line)) if line else finding

    def _tell_parts(self, finding: Finding, change: Change) -> Finding:
        """The finding with what parts of its change gain, if each is worth it."""
        gains = [(text, self._predict(apply)) for text, apply in change.parts]
        if not gains or min(gain for _, gain in gains) < self._least_ms:
            return finding
        parts = " and ".join(f"{text} gain {gain:.2f} ms a step" for text, gain in gains)
        line = f"each alone, {parts}"
        return replace(finding, evidence=(*finding.evidence, line))

    def _tell_other_fixes(self, finding: Finding, change: Change, replayed: float) -> Finding:
        """The finding with what other fixes gain, where that is worth it."""
        others = self._list_other_fixes(finding, change, replayed)
        fixes = [(fix, gain) for fix, gain in others if gain >= self._least_ms]
        lines = [f"another fix gains {gain:.2f} ms a step: {fix}" for fix, gain in fixes]
        evidence = (*finding.evidence, *lines)
        return replace(finding, evidence=evidence, other_fix=next(iter(fixes), None))

    def _list_other_fixes(
        self, finding: Finding, change: Change, replayed: float
    ) -> Iterator[tuple[str, float]]:
        """Other fixes and their gains. A pause that takes most of the step takes as long in a
        thread, and the step then waits for that: `replayed` is what the replay gains without it.
        """
        if change.other_fix is not None:
            fix, apply = change.other_fix
            yield fix, self._predict(apply)
        is_pause = finding.kind == "idle" and change in (PAUSES, LONE_PAUSES)
        if is_pause and replayed > self._step_ms / 2:
            yield THREAD, self._step_ms - replayed

    def find_turn(self, finding: Finding) -> int:
        """The place of the plan's item of a finding; before all for what the replayed steps lack
        and costs more than any item, and after all for what costs nothing yet.
        """
        if self._find_lacking(finding) > max(self._plan.gains.values(), default=0.0):
            return -1
        is_later = finding.replayed_ms is not None and finding.replayed_ms < self._least_ms
        return MANY + 1 if is_later else _find_place(finding, self._plan)

    def _tell_replayed(self, finding: Finding, replayed: float, gain: float) -> Finding:
        """The finding with a line where the plan, which is of the replayed steps, has another
        gain than all steps.
        """
        if abs(replayed - gain) < self._least_ms:
            return finding
        more = "more" if replayed > gain else "less"
        line = (
            f"the replayed steps, which the plan is of, hold {more} of it than all steps: "
            f"{replayed:.2f} ms a step there"
        )
        return replace(finding, evidence=(*finding.evidence, line))

    def _correct_pauses(self, finding: Finding, change: Change, gain: float) -> float:
        """The gain with pauses that are rarer than the replayed steps."""
        pauses = self._rare.pauses
        ranks = [rank for rank in finding.payers or finding.ranks if rank in pauses]
        if change not in (PAUSES, LONE_PAUSES) or not ranks:
            return gain
        return max(pauses[rank].correct(gain) for rank in ranks)

    def _find_lacking(self, finding: Finding) -> float:
        """The part of a cost (ms a step) that is of pauses which the replayed steps lack."""
        is_pause = finding.kind in PAUSES.kinds
        return self._rare.find_missing(finding.payers or finding.ranks) if is_pause else 0.0

    def _is_certain(self, finding: Finding, change: Change) -> bool:
        """Whether the change also gains something where the profiler cost as much as it ever did: a
        program that its GPU limits without the profiler may be one that its host limits with it.
        """
        if not self._is_estimate(finding):
            return True
        weights, before = self._list_prices()[0]
        changed = (change.core or change.apply)(self._replay.graph, weights)
        return before - self._replay.predict_step(changed) >= LEAST_SHARE * before

    def _is_estimate(self, finding: Finding) -> bool:
        """Whether the cost depends on what the profiler takes of each launch, and no control tells
        that.
        """
        is_known = self._shadow is None or self._shadow.is_measured
        return RULES[finding.kind].holds_tracing_cost and not is_known

    def _predict_range(
        self, finding: Finding, change: Change, gain: float
    ) -> tuple[float, float] | None:
        """The least and the most that the change gains; None where it is not an estimate."""
        gains = [self._predict(bound) for bound in change.bounds or ()]
        if self._is_estimate(finding):
            gains += self._list_estimates(change)
        elif self._is_host_hidden():
            estimates = self._list_estimates(change)
            gains += [each for each in estimates if abs(each - gain) >= self._least_ms]
        bounds = [max(0.0, each) for each in (gain, *gains)]
        return (min(bounds), max(bounds)) if gains else None

    def _list_estimates(self, change: Change) -> list[float]:
        """The gains where the profiler takes the most of the host's time, and the least."""
        graph, predict = self._replay.graph, self._replay.predict_step
        return [
            before - predict(change.apply(graph, weights))
            for weights, before in self._list_prices()
        ]

    def _list_prices(self) -> list[tuple[Weights, float]]:
        factors = self._shadow.factors if self._shadow else None
        return replay_prices(self._replay, factors or FACTORS)

    def _is_host_hidden(self) -> bool:
        """Whether the GPU hides a host of any speed that it may have without the profiler: how fast
        it is counts as soon as the GPU has less to do.
        """
        if self._shadow is None or self._shadow.is_measured:
            return False
        fastest, slowest = (step_ms for _, step_ms in self._list_prices())
        return slowest - fastest < self._least_ms

    def _predict_change(self, change: Change) -> float:
        known = self._plan.gains.get(change.text)
        return max(0.0, self._predict(change.apply) if known is None else known)

    def _tell_later_gain(self, finding: Finding, gain: float, place: int) -> Finding:
        item, earlier = self._plan.items[place], self._plan.items[:place]
        first = " and ".join(entry.change.text for entry in earlier)
        line = f"with {first} gone, this gains {item.before_ms - item.after_ms:.2f} ms a step"
        evidence = (*finding.evidence, line) if first else finding.evidence
        return replace(finding, replayed_ms=gain, evidence=evidence)

    def tell_same_loss(self, finding: Finding, earlier: Sequence[Finding]) -> Finding | None:
        """The finding with a line of evidence if an earlier one takes most of its gain away; None
        if that one tells its loss, or is another way to win the same and much more (ALIKE). A cause
        is told after a bound whatever they share, for no fix takes all of a bound away. A finding
        that has most of its gain in common with an earlier one says so, too. Pauses that the
        replayed steps lack are the loss of findings about pauses alone.
        """
        change = RULES[finding.kind].edit(finding)
        if change is None or not finding.replayed_ms or finding.replayed_ms < self._least_ms:
            return finding
        told = mostly = finding
        for other in earlier:
            first = RULES[other.kind].edit(other)
            if first is None or not other.replayed_ms:
                continue
            both = self._predict(combine((first.apply, change.apply)))
            lacking = 0.0 if other.kind in PAUSES.kinds else self._find_lacking(finding)
            left = both + lacking - (other.replayed_ms - self._find_lacking(other))
            if left >= self._least_ms:
                if mostly is finding and not lacking:
                    alone = self._predict_change(first), self._predict_change(change)
                    mostly = add_mostly_same_loss(finding, other, *alone, both)
                continue
            is_less = finding.replayed_ms < ALIKE * other.replayed_ms and not finding.payers
            told = told if told is not finding else add_same_loss(finding, other, max(0.0, left))
            if not _is_cause_of_bound(finding, other):
                return None if is_less or _includes(other, finding) else told
        return mostly if told is finding else told

    def _predict(self, change: Apply) -> float:
        weights = change(self._replay.graph, self._weights)
        return self._step_ms - self._replay.predict_step(weights)


def _is_cause_of_bound(finding: Finding, other: Finding) -> bool:
    """Whether one finding tells a cause, and the other a bound. Pauses may be slow launches."""
    change, bound = (RULES[each.kind].edit(each) for each in (finding, other))
    is_cause = change is not None and not change.is_bound and finding.kind not in PAUSES.kinds
    return is_cause and bound is not None and bound.is_bound


def _sort_key(finding: Finding) -> tuple[object, ...]:
    """Trades after others, then the largest cost first."""
    change = RULES[finding.kind].edit(finding)
    is_trade = change is not None and change.is_trade
    return (is_trade, -round(finding.cost_ms, 3), finding.kind, finding.ranks)
