"""A finding, and the judgement of a rule."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

SHOWN_MS = 0.005
"""Less time is "0.00 ms" in a text."""
_LONE_RANK = (
    (re.compile(r"(^|: )rank 0: "), r"\1"),
    (re.compile(r"; most on rank 0, (\d+ %)"), r" (\1)"),
    (re.compile(r" of rank 0, the slowest"), ""),
    (re.compile(r"^seen on rank 0$"), ""),
    (re.compile(r" on rank 0(?=[,;:]|$)"), ""),
)


@dataclass(frozen=True)
class Place:
    """Where to look: a rank and a time (ns on the run's clock)."""

    rank: int
    start: int
    end: int


@dataclass(frozen=True)
class Finding:
    """One finding: a cause of lost time that the recording shows, on these ranks.

    A rule fills in all but the costs. `payers`: the ranks that lose the time, where they are others
    than `ranks`. `includes`: kinds of findings on these ranks whose loss is this one. `at_most_ms`:
    the idle or exposed time of the cause in each step of an affected rank. `replayed_ms`: the step
    less the step replayed without the cause; None without a replay. `range_ms`: its least and its
    most, where it is an estimate. `other_fix`: another fix and what that gains, where the recording
    does not tell which one is possible. `place`: where the recording shows it, filled in by `place`
    of the rule.

    Without steps (`per_step` is False) the time is of the whole recording, and texts say "in all"
    instead of "a step".
    """

    kind: str
    ranks: tuple[int, ...]
    cause: str
    evidence: tuple[str, ...]
    advice: str
    payers: tuple[int, ...] = ()
    includes: tuple[str, ...] = ()
    at_most_ms: float = 0.0
    per_step: bool = True
    replayed_ms: float | None = None
    range_ms: tuple[float, float] | None = None
    other_fix: tuple[str, float] | None = None
    place: Place | None = None

    @property
    def cost_ms(self) -> float:
        """What a replay says that the cause costs in a step; without one, the most that it can."""
        return self.at_most_ms if self.replayed_ms is None else self.replayed_ms

    def describe_cost(self) -> str:
        """The cost for a text: "5.33 ms a step", "5.33 ms a step (3.00 to 5.69)" of an estimate, or
        "at most 5.69 ms a step" without a replay.
        """
        if not self.cost_ms:
            return ""
        limit = "at most " if self.replayed_ms is None else ""
        low, high = (f"{ms:.2f}" for ms in self.range_ms or (0.0, 0.0))
        bounds = f" ({low} to {high})" if low != high else ""
        return f"{limit}{self.cost_ms:.2f} ms {self.unit}{bounds}"

    def as_json(self) -> dict[str, object]:
        """The finding as the stable object of --format json."""
        return {
            "kind": self.kind,
            "ranks": list(self.ranks),
            "cause": self.cause,
            "ms_per_step": None if self.replayed_ms is None else round(self.replayed_ms, 3),
            **self._describe_range(),
            **self._describe_other_fix(),
            "evidence": list(self.evidence),
            "advice": self.advice,
            **self._describe_limit(),
        }

    def _describe_range(self) -> dict[str, list[float]]:
        if self.range_ms is None:
            return {}
        return {"ms_per_step_range": [round(ms, 3) for ms in self.range_ms]}

    def _describe_other_fix(self) -> dict[str, dict[str, object]]:
        if self.other_fix is None:
            return {}
        fix, gain = self.other_fix
        return {"other_fix": {"fix": fix, "ms_per_step": round(gain, 3)}}

    def _describe_limit(self) -> dict[str, float]:
        if not self.per_step:
            return {"ms_in_all": round(self.at_most_ms, 3)}
        is_replayed = self.replayed_ms is not None
        return {} if is_replayed else {"at_most_ms_per_step": round(self.at_most_ms, 3)}

    @property
    def unit(self) -> str:
        """The unit of a cost in texts: "a step" or "in all"."""
        return "a step" if self.per_step else "in all"

    def with_texts(self, change: Callable[[str], str]) -> "Finding":
        """The finding with `change` applied to its cause, evidence and advice."""
        evidence = tuple(map(change, self.evidence))
        return replace(
            self, cause=change(self.cause), evidence=evidence, advice=change(self.advice)
        )

    def of_recording(self) -> "Finding":
        """The same finding for a recording without steps."""
        evidence = tuple(line.replace(" a step", " in all") for line in self.evidence)
        return replace(self, evidence=evidence, per_step=False)


@dataclass(frozen=True)
class Judgement:
    """The findings of a rule, and what it could not judge, with the reason."""

    findings: tuple[Finding, ...] = ()
    unjudged: tuple[str, ...] = ()


def drop_lone_rank(text: str) -> str:
    """Return a text on a run of rank 0 alone without that rank: `rank 0: 5 ms` is `5 ms`."""
    for pattern, words in _LONE_RANK:
        text = pattern.sub(words, text)
    return text


def format_ranks(ranks: Iterable[int]) -> str:
    """Ranks as text: "rank 0", "ranks 0, 2" or "ranks 0-7"."""
    numbers = sorted(set(ranks))
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"ranks {numbers[0]}-{numbers[-1]}"
    return f"ranks {', '.join(map(str, numbers))}"
