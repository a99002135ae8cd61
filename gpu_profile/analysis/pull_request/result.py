"""The result of `ci`: the figures, what changed, and what repeats it."""

from dataclasses import dataclass

from gpu_profile.analysis.pull_request.figure import VERDICTS, Figure


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kernel, module or finding that differs, in ms a step and rank.

    `kind` is "kernel", "module" or "finding"; `cause` says how it differs: "appeared, 12 a step, in
    h.*.attn".
    """

    kind: str
    name: str
    base_ms: float
    new_ms: float
    cause: str = ""

    @property
    def ms(self) -> float:
        """How much more it takes."""
        return self.new_ms - self.base_ms


@dataclass(frozen=True, kw_only=True)
class KernelSet:
    """How many kernels each side runs in its steps, and how many only one side runs, in all of its
    runs.
    """

    base: int = 0
    new: int = 0
    appeared: int = 0
    vanished: int = 0

    def __str__(self) -> str:
        if not (self.base or self.new):
            return "no kernels"
        if self.appeared or self.vanished:
            return f"kernels that appeared: {self.appeared}, that vanished: {self.vanished}"
        unsteady = "" if self.base == self.new else ", besides those that differ from run to run"
        return f"the same {min(self.base, self.new)} kernels{unsteady}"


@dataclass(frozen=True, kw_only=True)
class CiResult:
    """What `ci` found. `base` is what the change was compared with: "main (1a2b3c4)".

    `repeat`: the words of the command that repeats it; empty where they are not to be trusted.
    """

    base: str
    figures: tuple[Figure, ...]
    changes: tuple[Change, ...] = ()
    kernels: KernelSet = KernelSet()
    notes: tuple[str, ...] = ()
    repeat: tuple[str, ...] = ()
    require_decision: bool = False

    @property
    def verdict(self) -> str:
        """The verdict of the figures together: that of the one that matters most."""
        verdicts = {figure.verdict for figure in self.figures}
        return next((verdict for verdict in VERDICTS if verdict in verdicts), "undecided")

    @property
    def pairs(self) -> int:
        return max((len(figure.base_ms) for figure in self.figures), default=0)

    @property
    def fails(self) -> bool:
        """Whether the gate fails, as that of `compare`."""
        needs = self.require_decision and self.verdict == "undecided"
        return self.verdict == "regression" or needs

    def list_needs(self) -> tuple[str, ...]:
        """Sentences on what would tell more."""
        return tuple(filter(None, (figure.describe_need() for figure in self.figures)))
