"""Where the kernels of a run come from: their time by module of the model."""

from collections.abc import Iterable, Mapping

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.modules.marks import fold_module
from gpu_profile.analysis.modules.module_kernels import list_module_kernels
from gpu_profile.analysis.modules.module_times import count_steady_steps
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

Place = tuple[str, str]
"""A kernel, and the module that launched it, with layers folded: ("gemm", "h.*.attn")."""


def collect_places(database: Database, scope: Scope) -> list[dict[Place, float]]:
    """Return the ms a step of each kernel in each module, of each rank; empty without marks."""
    ranks = []
    for activity in activities_of(database, scope):
        sums: dict[Place, float] = {}
        steps = count_steady_steps(activity) or 1
        for entry in list_module_kernels(activity):
            if entry.module.is_real and entry.time:
                place = entry.kernel, fold_module(entry.module)
                sums[place] = sums.get(place, 0.0) + entry.time / steps / 1e6
        ranks.append(sums)
    return ranks


def average_places(ranks: Iterable[Mapping[Place, float]]) -> dict[Place, float]:
    """Return the means of ranks, or of runs."""
    ranks = list(ranks)
    places = dict.fromkeys(place for rank in ranks for place in rank)
    return {place: sum(rank.get(place, 0.0) for rank in ranks) / len(ranks) for place in places}


def sum_modules(places: Mapping[Place, float]) -> dict[str, float]:
    """Return the ms a step of each module."""
    sums: dict[str, float] = {}
    for (_, module), ms in places.items():
        sums[module] = sums.get(module, 0.0) + ms
    return sums
