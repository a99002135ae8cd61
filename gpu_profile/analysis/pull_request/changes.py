"""What differs between the runs of the base and those of the change, and where."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.compare.kernels import PerStep, average_per_step
from gpu_profile.analysis.compare.rank_sets import Runs
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.pull_request.figure import Figure
from gpu_profile.analysis.pull_request.places import Place, average_places, sum_modules
from gpu_profile.analysis.pull_request.result import Change, KernelSet
from gpu_profile.analysis.tables.comm_kernels import comm_kernel

MOST_CHANGES = 12
_LEAST = 0.003
"""A kernel or module that differs by less of the GPU's time in a step is not told."""
_LEAST_COST = 0.01
"""A finding whose cost differs by less of the step is not told, nor is one that differs by less
than the noise of the pairs' wall times: it is of one run a side.
"""
_NOTHING = PerStep(0.0, 0.0)

Kernels = Mapping[str, PerStep]
Sides = tuple[Sequence[Kernels], Sequence[Kernels]]
"""The kernels of each run of the base, and of each run of the change, in the order of the pairs."""


@dataclass(frozen=True)
class Places:
    """The ms a step of each kernel in each module, means of the runs of each side."""

    base: Mapping[Place, float]
    new: Mapping[Place, float]

    @classmethod
    def of(
        cls, base: Iterable[Mapping[Place, float]], new: Iterable[Mapping[Place, float]]
    ) -> "Places":
        return cls(average_places(base), average_places(new))

    def find_module(self, kernel: str) -> str:
        """Return the module in which most of a kernel's difference is; "" without marks."""
        modules = {module for name, module in (*self.base, *self.new) if name == kernel}
        return max(sorted(modules), key=lambda module: self._differ((kernel, module)), default="")

    def _differ(self, place: Place) -> float:
        return abs(self.new.get(place, 0.0) - self.base.get(place, 0.0))


def list_kernels(base: Runs, new: Runs) -> Sides:
    """Return the kernels of each run."""
    return [average_per_step([run]) for run in base], [average_per_step([run]) for run in new]


def count_kernel_set(sides: Sides) -> KernelSet:
    """Count the kernels, and those that are in all runs of one side and in no run of the other.

    Libraries that measure which kernel is fastest choose another one in some runs: these count for
    neither side.
    """
    base, new = ([set(run) for run in side] for side in sides)
    all_base, all_new = (set.union(*side) if side else set[str]() for side in (base, new))
    return KernelSet(
        base=len(all_base),
        new=len(all_new),
        appeared=len(set.intersection(*new) - all_base) if new else 0,
        vanished=len(set.intersection(*base) - all_new) if base else 0,
    )


def list_changes(
    sides: Sides, places: Places, diagnoses: tuple[Diagnosis, Diagnosis], wall: Figure
) -> tuple[Change, ...]:
    """Return what differs in all pairs alike, the most time first."""
    kernels = list(_list_kernel_changes(sides, places))
    gpu_ms = _mean(sum(kernel.time for kernel in run.values()) for run in sides[0]) / 1e6
    least = _LEAST * gpu_ms
    modules = _list_module_changes(places, kernels, least)
    noise = wall.difference.noise if wall.difference else 0.0
    findings = _list_finding_changes(diagnoses, max(_LEAST_COST, noise) * wall.mean_ms[0])
    large = [change for change in (*kernels, *modules) if abs(change.ms) >= least]
    ordered = sorted((*large, *findings), key=lambda change: (-abs(change.ms), change.name))
    return tuple(ordered[:MOST_CHANGES])


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def _list_kernel_changes(sides: Sides, places: Places) -> Iterator[Change]:
    """Yield the kernels whose time or count differs to one side in all pairs; collectives wait, so
    that their times tell of others.
    """
    for name in sorted({name for side in sides for run in side for name in run}):
        if comm_kernel(name):
            continue
        base, new = ([run.get(name, _NOTHING) for run in side] for side in sides)
        if not _moves(base, new):
            continue
        before, after = (_mean(kernel.time for kernel in side) / 1e6 for side in (base, new))
        cause = _describe_counts(base, new)
        module = places.find_module(name)
        where = f"in {module}" if module else ""
        cause = ", ".join(filter(None, (cause, where)))
        yield Change(kind="kernel", name=name, base_ms=before, new_ms=after, cause=cause)


def _moves(base: Sequence[PerStep], new: Sequence[PerStep]) -> bool:
    """Whether the time differs to one side in all pairs."""
    differences = [after.time - before.time for before, after in zip(base, new, strict=True)]
    return all(ns > 0 for ns in differences) or all(ns < 0 for ns in differences)


def _describe_counts(base: Sequence[PerStep], new: Sequence[PerStep]) -> str:
    before, after = (_mean(kernel.count for kernel in side) for side in (base, new))
    if not before:
        return f"appeared, {after:.4g} a step"
    if not after:
        return f"vanished, it was {before:.4g} a step"
    if round(before, 2) != round(after, 2):
        return f"{before:.4g} -> {after:.4g} a step"
    return f"{before:.4g} a step, as before"


def _list_module_changes(
    places: Places, kernels: Sequence[Change], least: float
) -> Iterator[Change]:
    """Yield the modules that differ by more than the kernels that are told of them explain."""
    base, new = sum_modules(places.base), sum_modules(places.new)
    listed_ms: dict[str, float] = {}
    for kernel in kernels:
        if abs(kernel.ms) >= least:
            module = places.find_module(kernel.name)
            listed_ms[module] = listed_ms.get(module, 0.0) + kernel.ms
    for name in sorted(base.keys() | new.keys()):
        change = Change(
            kind="module", name=name, base_ms=base.get(name, 0.0), new_ms=new.get(name, 0.0)
        )
        if abs(change.ms - listed_ms.get(name, 0.0)) > abs(change.ms) / 2:
            yield change


def _list_finding_changes(diagnoses: tuple[Diagnosis, Diagnosis], least: float) -> Iterator[Change]:
    """Yield the findings whose cost in a step differs, with their first evidence."""
    base, new = (
        {finding.kind: finding for finding in reversed(diagnosis.findings) if finding.per_step}
        for diagnosis in (diagnosis.without_lone_rank() for diagnosis in diagnoses)
    )
    for kind in sorted(base.keys() | new.keys()):
        before, after = base.get(kind), new.get(kind)
        costs = [finding.cost_ms if finding else 0.0 for finding in (before, after)]
        shown = after or before
        if shown and abs(costs[1] - costs[0]) >= least:
            cause = "; ".join((shown.cause, *shown.evidence[:1]))
            yield Change(kind="finding", name=kind, base_ms=costs[0], new_ms=costs[1], cause=cause)
