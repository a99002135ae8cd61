"""Hold the leaves of a recording against torch.profiler: `python leaves.py OUT/NAME...`.

Each folder is of record.sh's part `leaves`: a report with marks of modules, rank0.json and
again/rank0.json, which are two runs of the same program under torch.profiler. Copies and memsets
count, too. Prints for forward and backward how many leaves lie within 2 % of the mean of the two
runs, each leaf that does not, and how far these two lie from each other at most.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.modules.owners import find_op_owners
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

_LIMIT = 0.02
_STEPS = 16


def measure_leaves(folder: Path) -> dict[tuple[str, str], tuple[int, float]]:
    """Return the number of operations and their microseconds by (forward or backward, leaf)."""
    with Database.open(next(folder.glob("rank0.*sqlite*"))) as database:
        (activity,) = activities_of(database, Scope())
        owners = find_op_owners(activity)
    if owners is None:
        sys.exit(f"{folder}: no marks of modules")
    time = np.bincount(owners.of_op, activity.ops.duration, len(owners.owners)) / 1e3
    count = np.bincount(owners.of_op, minlength=len(owners.owners))
    return {
        (owner.work, owner.module.name): (int(number), float(us))
        for owner, number, us in zip(owners.owners, count, time, strict=True)
    }


def compare_leaves(folder: Path) -> None:
    ours = measure_leaves(folder)
    first, again = (
        json.loads((folder / path).read_text()) for path in ("rank0.json", "again/rank0.json")
    )
    for work in ("forward", "backward"):
        far, between, counts = [], 0.0, 0
        for key, us in first[f"{work}_us"].items():
            leaf = key.removeprefix("leaf:").split("|")[0]
            us_again = again[f"{work}_us"][key]
            number, time = ours.get((work, leaf), (0, 0.0))
            share = 2 * time / (us + us_again) - 1
            counts += number == first[f"{work}_count"][key]
            between = max(between, abs(us_again / us - 1))
            if abs(share) > _LIMIT:
                far.append(f"{leaf} ({time / _STEPS:.1f} us a step) {share:+.1%}")
        leaves = len(first[f"{work}_us"])
        print(
            f"{folder.name} {work}: {leaves - len(far)} of {leaves} leaves within 2 %, {counts} with"
            f" as many operations; {', '.join(far) or 'none is further'};"
            f" two runs of torch.profiler differ by up to {between:.1%}"
        )


for name in sys.argv[1:]:
    compare_leaves(Path(name))
