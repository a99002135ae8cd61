"""What to do first, the step that follows from it, and what is worth doing after that."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.analysis.replay.changes import LEAST_SHARE, Change
from gpu_profile.analysis.replay.shadow.host_scale import FACTORS, HIDDEN


@dataclass(frozen=True)
class PlanItem:
    """A change, and the step (ms) before and after it, with the earlier items done.

    `alternatives`: changes that gain as much now and nothing more after this one.
    """

    change: Change
    before_ms: float
    after_ms: float
    alternatives: tuple[Change, ...] = ()

    @property
    def text(self) -> str:
        """What is taken away: "host pauses, or rank 1's host"."""
        return ", or ".join(change.text for change in (self.change, *self.alternatives))

    def as_json(self) -> dict[str, object]:
        return {
            "remove": self.change.text,
            "or": [change.text for change in self.alternatives],
            "before_ms": round(self.before_ms, 3),
            "after_ms": round(self.after_ms, 3),
        }


@dataclass(frozen=True)
class Plan:
    """`items` in the order of doing them. `gains`: ms a step that each change alone gains now, by
    its text; 0 for those that the critical path does not hold. `error`: of the self-test.
    `recorded_ms`: the recorded step; `step_ms` is that without the profiler, where a control tells
    it, and then `host_factor` of the recorded host time is left; `factors`, `pause_factor`,
    `callback_ms` and `timed_in` as of Shadow.
    """

    step_ms: float
    error: float
    items: tuple[PlanItem, ...]
    gains: Mapping[str, float]
    recorded_ms: float
    host_factor: float | None = None
    factors: tuple[float, float] | None = None
    pause_factor: float = 1.0
    callback_ms: float = 0.0
    timed_in: tuple[str, ...] = ()

    def has_gain(self, text: str) -> bool:
        """Whether the change of this text is worth it, alone and now."""
        return self.gains.get(text, 0.0) >= LEAST_SHARE * self.step_ms

    def to_lines(self) -> list[str]:
        """The plan as text, a line for each item."""
        error = f"by a replay that is {100 * abs(self.error):.1f} % off"
        head = f"What to do first, {error}{self._describe_control()}:"
        lines = [
            f"{'then' if number else 'now'}: {item.text}, "
            f"{item.before_ms:.2f} -> {item.after_ms:.2f} ms a step"
            for number, item in enumerate(self.items)
        ]
        return [head, *(f"   {line}" for line in lines)] if lines else []

    def _describe_control(self) -> str:
        if self.host_factor is None:
            return ""
        part = f"{100 * self.host_factor:.0f} %"
        steps = f"{self.recorded_ms:.2f} ms recorded, "
        plain = f"{self.step_ms:.2f} without the profiler{self._describe_callbacks()}"
        if self.pause_factor != 1:
            work = f"the host's work takes {part}{self._describe_timing()}, and "
            host = work if self.host_factor < 1 else ""
            control = f"{plain}: there {host}the host's pauses are"
            length = f"{self.pause_factor:.1f} times as long" if self.pause_factor else "missing"
            return f" ({steps}{control} {length})"
        if self.factors is None:
            time = f"{part} of the recorded time{self._describe_timing()}"
            return f" ({steps}{plain}: the host's work takes {time})"
        low, high = (f"{100 * factor:.0f}" for factor in self.factors)
        if self.factors != FACTORS:
            limits = f"which takes {low} to {high} % of its recorded time, and is taken as {part}"
            return f" ({steps}{plain}: there the GPU hides the host, {limits})"
        if self.step_ms >= (1 - HIDDEN) * self.recorded_ms:
            return f" (the GPU hides the host, whose work is taken as {part} of its recorded time)"
        control = (
            f"about {self.step_ms:.2f} without the profiler: the host's work is taken as {part}"
        )
        return (
            f" ({steps}{control} of the recorded time, in other programs it is {low} to {high} %)"
        )

    def _describe_timing(self) -> str:
        """Where the factor was measured; "" where the control's step tells it."""
        if not self.timed_in:
            return ""
        *others, last = (f"the {phase}" for phase in self.timed_in)
        measured = f"{', '.join(others)} and {last}" if others else last
        return f", as measured in {measured}"

    def _describe_callbacks(self) -> str:
        """What the control holds of the profiler; "" where that is not the host's step."""
        if self.callback_ms < HIDDEN * self.step_ms:
            return ""
        unrecorded = f"{self.step_ms + self.callback_ms:.2f} that were not recorded"
        return f", which takes {self.callback_ms:.2f} of the {unrecorded}"

    def as_json(self) -> dict[str, object]:
        """The plan as the stable object of --format json."""
        return {
            "step_ms": round(self.step_ms, 3),
            "recorded_ms": round(self.recorded_ms, 3),
            "host_factor": None if self.host_factor is None else round(self.host_factor, 3),
            "pause_factor": round(self.pause_factor, 3),
            "callback_ms": round(self.callback_ms, 3),
            "is_factor_measured": self.host_factor is not None and self.factors is None,
            "error_percent": round(100 * self.error, 2),
            "items": [item.as_json() for item in self.items],
        }
