"""Score the iterations found in a recording of programs/server.py against its own log.

    python bench/serving/score.py STEPS.jsonl REPORT.sqlite

Prints how many of the logged iterations were found, and with the right kind and batch.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpu_profile.analysis.activity.cached import activities_of  # noqa: E402 - of this checkout
from gpu_profile.analysis.activity.serving.marks import KINDS, UNKNOWN  # noqa: E402
from gpu_profile.analysis.activity.steps.find_steps import find_steps  # noqa: E402
from gpu_profile.analysis.activity.steps.steps import Steps  # noqa: E402
from gpu_profile.analysis.multi_report.clocks import read_session_start  # noqa: E402
from gpu_profile.analysis.store.files.open_report import open_report  # noqa: E402
from gpu_profile.analysis.tables.analysis import Scope  # noqa: E402

NEAR_NS = 1_000_000
"""Of the begin on the host, or a quarter of the iteration: the log is written in Python."""


def score_steps(lines: Sequence[Mapping[str, Any]], steps: Steps, utc: int) -> Counter[str]:
    """What was found of the logged iterations that the recording holds."""
    counts: Counter[str] = Counter()
    begins = steps.host_start + utc
    for line in lines:
        start, end = round(line["start"] * 1e9), round(line["end"] * 1e9)
        if not len(begins) or not begins[0] - NEAR_NS <= start <= begins[-1] + NEAR_NS:
            continue
        counts["logged"] += 1
        row = int(np.argmin(np.abs(begins - start)))
        if abs(int(begins[row]) - start) > max(NEAR_NS, (end - start) // 4):
            continue
        counts["found"] += 1
        if steps.are_iterations:
            kind = int(steps.kind[row])
            told = "kind unknown" if kind == UNKNOWN else "right kind"
            counts[told if kind == UNKNOWN or KINDS[kind] == line["kind"] else "wrong kind"] += 1
            counts["right batch"] += int(steps.batch[row]) == line["batch"]
    counts["not logged"] = len(begins) - counts["found"]
    return counts


def main() -> None:
    log, report = sys.argv[1:]
    lines = [json.loads(line) for line in Path(log).read_text(encoding="utf-8").splitlines()]
    with open_report(report) as database:
        utc = read_session_start(database)
        for activity in activities_of(database, Scope()):
            steps = find_steps(activity)
            print(f"{steps.source}: {dict(score_steps(lines, steps, utc))}")


if __name__ == "__main__":
    main()
