"""Hold the leaves of a recording against torch.profiler: `python leaves.py OUT/NAME...`.

Each folder is of record.sh's part `leaves`: a report with marks of modules, rank0.json and
again/rank0.json, which are two runs of the same program under torch.profiler. Prints for forward
and backward how far the worst leaf lies from the mean of the two runs, beside how far these two
lie from each other.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.modules.module_times import measure_modules
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

_LIMIT = 0.02


def load_leaves(path: Path, work: str) -> dict[str, float]:
    """Microseconds a step of each leaf, from torch.profiler."""
    reference = json.loads(path.read_text())
    times = reference[f"{work}_us"]
    return {key[5:].split("|")[0]: us / reference["steps"] for key, us in times.items()}


def compare_leaves(folder: Path) -> None:
    with Database.open(next(folder.glob("rank0.*sqlite*"))) as database:
        (activity,) = activities_of(database, Scope())
        modules = measure_modules(activity)
    if modules is None:
        sys.exit(f"{folder}: no modules")
    for work in ("forward", "backward"):
        ours = {t.module.name: getattr(t, work) / modules.steps / 1e3 for t in modules.times}
        first = load_leaves(folder / "rank0.json", work)
        again = load_leaves(folder / "again" / "rank0.json", work)
        mean = {leaf: (first[leaf] + again[leaf]) / 2 for leaf in first}
        far = {leaf: ours.get(leaf, 0.0) / us - 1 for leaf, us in mean.items()}
        between = {leaf: again[leaf] / first[leaf] - 1 for leaf in first}
        total = sum(ours.get(leaf, 0.0) for leaf in mean) / sum(mean.values()) - 1
        within = sum(abs(share) <= _LIMIT for share in far.values())
        print(
            f"{folder.name} {work}: {within} of {len(far)} leaves within 2 %, all {total:+.2%};"
            f" worst {show_worst(far, mean)}; two runs of torch.profiler: {show_worst(between, mean)},"
            f" {sum(abs(share) <= _LIMIT for share in between.values())} within 2 %"
        )


def show_worst(shares: dict[str, float], mean: dict[str, float]) -> str:
    leaf = max(shares, key=lambda each: abs(shares[each]))
    return f"{shares[leaf]:+.1%} ({leaf}, {mean[leaf]:.1f} us)"


for name in sys.argv[1:]:
    compare_leaves(Path(name))
