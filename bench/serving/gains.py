"""Hold what a diagnosis says of recorded turns against what the fixes gained without a profiler.

    python bench/serving/gains.py PLAIN/turns.jsonl RECORDED/steps.jsonl REPORT.sqlite...

The first two files are of programs/server.py, and a report is named after its turn, such as
host_gap.sqlite. The fix of a cause is `base`; that of long prompts is `elsewhere`. A cost is told
twice: by the report alone, and with the turn's own iteration without a profiler as --control-ms.
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.serving.score import score_steps  # noqa: E402 - of this checkout
from gpu_profile.analysis.activity.cached import activities_of  # noqa: E402
from gpu_profile.analysis.activity.steps.find_steps import find_steps  # noqa: E402
from gpu_profile.analysis.findings.diagnose import judge_run  # noqa: E402
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts  # noqa: E402
from gpu_profile.analysis.findings.diagnosis import Diagnosis  # noqa: E402
from gpu_profile.analysis.multi_report.clocks import read_session_start  # noqa: E402
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep  # noqa: E402
from gpu_profile.analysis.store.files.open_report import open_report  # noqa: E402
from gpu_profile.analysis.tables.analysis import Scope  # noqa: E402

FIXES = {"long_prefill": "elsewhere"}
CAUSES = {
    "host_gap": "decode_gap",
    "detokenize": "decode_gap",
    "long_prefill": "mixed_steps",
    "graph_miss": "graph_miss",
    "small_copies": "many_small_copies",
}
OF_THE_MODEL = "unfused_attention"
"""The model attends by single kernels in all runs: that is no cause which only some have."""
STEP_ERROR = 0.10
NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Turn:
    """The means of the iterations (ms) in the rounds without a profiler."""

    unfixed: Sequence[float]
    fixed: Sequence[float]

    @property
    def step(self) -> float:
        return statistics.median(self.unfixed)

    @property
    def gain(self) -> float:
        return self.step - statistics.median(self.fixed)

    def to_text(self) -> str:
        each = [before - after for before, after in zip(self.unfixed, self.fixed, strict=True)]
        return f"{self.gain:.2f} ({min(each):.2f} to {max(each):.2f}) of {self.step:.2f}"


def read_turns(path: Path) -> Mapping[str, Turn]:
    means = defaultdict[str, list[float]](list)
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        means[line["name"]].append(line["mean_ms"])
    rounds = min(map(len, means.values()))
    return {
        name: Turn(unfixed[:rounds], means[FIXES.get(name, "base")][:rounds])
        for name, unfixed in means.items()
    }


def _list_costs(diagnosis: Diagnosis) -> str:
    costs = [f"{finding.kind} {finding.cost_ms:.2f}" for finding in diagnosis.findings]
    return ", ".join(costs) or "nothing"


def _is_right(name: str, turn: Turn, diagnosis: Diagnosis) -> bool:
    """Whether the cause comes first, with its gain within STEP_ERROR of the step."""
    findings = [finding for finding in diagnosis.findings if finding.kind != OF_THE_MODEL]
    if name not in CAUSES:
        return not findings
    first = next(iter(findings), None)
    if first is None or first.kind != CAUSES[name]:
        return False
    return abs(first.cost_ms - turn.gain) <= STEP_ERROR * turn.step


def judge_turn(report: Path, turn: Turn | None) -> str:
    """The row of a report with its findings."""
    with open_report(str(report)) as database:
        facts = collect_report_facts(database, Scope())
    alone, name = judge_run([facts]), report.name.split(".")[0]
    if turn is None:
        return f"| {name} | | {_list_costs(alone)} | | |"
    known = judge_run([facts], control=PlainStep(turn.step))
    right = "/".join("yes" if _is_right(name, turn, told) else "no" for told in (alone, known))
    return f"| {name} | {turn.to_text()} | {_list_costs(alone)} | {_list_costs(known)} | {right} |"


def count_steps(report: Path, lines: Sequence[Mapping[str, Any]]) -> str:
    """The row of a report with its iterations, by their marks and without them."""
    cells = []
    with open_report(str(report)) as database:
        utc = read_session_start(database)
        for activity in activities_of(database, Scope()):
            for read in (activity, replace(activity, ranges=activity.ranges.pick(NO_ROWS))):
                steps = find_steps(read)
                cells.append(f"{steps.source}: {dict(score_steps(lines, steps, utc))}")
    return f"| {report.name.split('.')[0]} | {' | '.join(cells)} |"


def main() -> None:
    turns, reports = read_turns(Path(sys.argv[1])), [Path(word) for word in sys.argv[3:]]
    logged = Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
    lines = [json.loads(line) for line in logged]
    print("| turn | the fix gains (ms) | told | told with a control | right |")
    print("|---|---|---|---|---|")
    for report in reports:
        print(judge_turn(report, turns.get(report.name.split(".")[0])), flush=True)
    print("\n| turn | by marks | without marks |", "|---|---|---|", sep="\n")
    for report in reports:
        print(count_steps(report, lines), flush=True)


if __name__ == "__main__":
    main()
