"""How fast the host works without the profiler, by the marks' times in both runs of record.sh."""

import json
from pathlib import Path
from typing import Any

from bench.causes.turns import WARM_STEPS
from gpu_profile.analysis.replay.shadow.plain_step import PHASES, UNKNOWN, Ratios
from gpu_profile.runs.step_times import compare_phase


def read_host_ratios(folder: Path) -> Ratios:
    """Return the ratios of the phases of NAME/: of steps measured with the cause to the recorded
    ones. UNKNOWN where the marks counted no steps.
    """
    plain, recorded = (_read_file(folder / name) for name in ("plain", "planted"))
    turns = json.loads((folder / "turns.json").read_text())
    if not plain or not recorded or not turns.get("made"):
        return UNKNOWN
    # The marks count forwards where there is no optimizer: a step may have several.
    per_step = plain["steps"] / turns["made"]
    ratios = []
    for phase in PHASES:
        before = recorded["phases"].get(f"{phase}_ms", [])[round(WARM_STEPS * per_step) :]
        times = plain["phases"].get(f"{phase}_ms", [])
        spans = [(round(a * per_step), round(b * per_step)) for a, b in turns["steps"]]
        # The first and the last one may be of the block beside it.
        after = [ms for begin, end in spans for ms in times[begin + 1 : end - 1]]
        ratios.append(compare_phase(before, after))
    return ratios[0], ratios[1], ratios[2]


def _read_file(folder: Path) -> dict[str, Any]:
    for file in sorted(folder.glob("*.steps.json")):
        facts: dict[str, Any] = json.loads(file.read_text())
        return facts
    return {}
