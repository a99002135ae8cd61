"""Judge what the command itself answered: python bench/causes/answers.py OUT [--no-factor]

OUT is the folder of answers.sh. The control is that of the run, as in the answer that a user reads;
score.py takes the step that was measured. --no-factor leaves out how fast the marks timed the host.
Prints a table in Markdown, in ms a step of the program; where the answer is of a part of such a
step, its figures are taken as often as the step holds it.
"""

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.causes.judge import Score, read_ranks
from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, UNKNOWN, PlainStep
from gpu_profile.runs.baseline import find_plain_step_of
from gpu_profile.runs.step_times import find_times_file, read_times


def make_row(folder: Path, *, has_factor: bool = True) -> str:
    """The row of the program in NAME/."""
    planted, fixed = (_list_blocks(folder, kind) for kind in ("planted", "fixed"))
    step = statistics.median(planted)
    gains = [before - after for before, after in zip(planted, fixed, strict=True)]
    run = next(folder.glob("runs/*/run.json")).parent
    plain = find_plain_step_of(run)
    plain = plain if has_factor else plain._replace(phases=UNKNOWN)
    facts, error_ns = read_ranks(sorted(run.glob("*.sqlite")))
    diagnosis = judge_run(facts, error_ns, plain)
    first = diagnosis.findings[0] if diagnosis.findings else None
    told = _find_told_step(diagnosis.plan, first)
    parts = max(1, round(step / told)) if told else 1
    answer = Score(
        name=folder.name,
        step=step,
        gain=step - statistics.median(fixed),
        spread=(min(gains), max(gains)),
        predicted=parts * first.cost_ms if first else None,
        kinds=(first.kind,) if first else (),
    )
    blocks = f"{step:.2f} ({min(planted):.2f} to {max(planted):.2f})"
    of = f" of {parts} parts" if parts > 1 else ""
    finding = f"{first.kind} {answer.predicted:.2f}{of}" if first else "nothing"
    return (
        f"| {folder.name} | {blocks} | {_describe_control(run, plain)} | {parts * told:.2f} | "
        f"{answer.gain:.2f} | {finding} | {'yes' if answer.is_right else 'no'} |"
    )


def _find_told_step(plan: Plan | str, first: Finding | None) -> float:
    """The step (ms) of the answer; 0 without a plan. A plan is of the replayed steps, which lack a
    part of what is rare: the cost of the first finding is of all steps.
    """
    if isinstance(plan, str):
        return 0.0
    change = RULES[first.kind].edit(first) if first else None
    if first is None or change is None:
        return plan.step_ms
    return plan.step_ms + first.cost_ms - plan.gains.get(change.text, first.cost_ms)


def _list_blocks(folder: Path, kind: str) -> list[float]:
    """Of each file the last line: libraries print before it."""
    texts = [(folder / f"{when}.json").read_text() for when in ("before", "after")]
    return [ms for text in texts for ms in json.loads(text.splitlines()[-1])[kind]]


def _describe_control(run: Path, plain: PlainStep) -> str:
    file = find_times_file(run)
    times = read_times(file) if file and plain != NO_STEP else None
    control = times.find_control() if times else None
    return f"{control.ms:.2f} a {times.unit}" if times and control else "none"


def main() -> None:
    print(
        "| program | step (blocks) | control | step told | measured gain | first finding | right |"
    )
    print("|---|---|---|---|---|---|---|")
    folder, *flags = sys.argv[1:]
    for file in sorted(Path(folder).glob("*/before.json")):
        print(make_row(file.parent, has_factor="--no-factor" not in flags), flush=True)


if __name__ == "__main__":
    main()
