"""The line on a run that has ended: state, reports, cost, error."""

from pathlib import Path

from gpu_profile.runs import baseline
from gpu_profile.runs.record import RunRecord

_WORDS = {"done": "succeeded", "interrupted": "cancelled"}


def describe_end(directory: Path, run: RunRecord) -> str:
    """Return one line on a finished run: its state, reports, cost and error."""
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    count = len(run.reports)
    remains = f"{directory} has {count or 'no'} report{'' if count == 1 else 's'}"
    state = _WORDS.get(run.phase, run.phase)
    return "; ".join(
        filter(None, (state + code, remains, baseline.describe_cost(run.baseline), run.error))
    )
