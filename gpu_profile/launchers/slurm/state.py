"""Turn Slurm's job states (TIMEOUT, NODE_FAIL, …) into JobStatus.

The states: https://slurm.schedmd.com/sacct.html#SECTION_JOB-STATE-CODES
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from gpu_profile.errors import (
    GpuProfileError,
    JobError,
    Refusal,
    SettingsError,
    ToolError,
    explain_refusal,
)
from gpu_profile.job_status import JobState, JobStatus

STATES: Mapping[str, JobState] = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "RESV_DEL_HOLD"), JobState.PENDING),
    **dict.fromkeys(("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"), JobState.PENDING),
    **dict.fromkeys(("RUNNING", "COMPLETING", "SIGNALING"), JobState.RUNNING),
    **dict.fromkeys(("RESIZING", "STAGE_OUT", "SUSPENDED", "STOPPED"), JobState.RUNNING),
    "COMPLETED": JobState.SUCCEEDED,
    **dict.fromkeys(("CANCELLED", "REVOKED"), JobState.CANCELLED),
    **dict.fromkeys(("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"), JobState.FAILED),
    **dict.fromkeys(("BOOT_FAIL", "DEADLINE", "PREEMPTED"), JobState.FAILED),
}
_REASONS: Mapping[str, str] = {
    "TIMEOUT": "it ran over its time limit{limit}: ask for more by --time",
    "NODE_FAIL": "a node failed{nodes}",
    "OUT_OF_MEMORY": "it ran out of memory",
    "BOOT_FAIL": "a node did not boot{nodes}",
    "PREEMPTED": "it was preempted by another job",
    "DEADLINE": "it could not end before its deadline",
    "CANCELLED": "it was cancelled",
}
_ENDED: Mapping[str, tuple[JobState, str]] = {
    "stopped": (JobState.CANCELLED, "it was stopped"),
    "time limit": (
        JobState.FAILED,
        "its time limit{limit} was near, and it was ended so that nsys finalised:"
        " ask for more by --time",
    ),
}
_EXIT = re.compile(r"exit code (?P<code>\d+)(?: of (?P<tasks>.+))?")
"""The line that our script writes at the end of a job that nobody stopped."""
_REFUSALS = (
    Refusal("partition", SettingsError, "`sinfo` lists the partitions: --partition"),
    Refusal("time limit", SettingsError, "Ask for less by --time"),
    Refusal("account", SettingsError, "Set SLURM_ACCOUNT to one of yours"),
    Refusal("unrecognized option", SettingsError, "Check --sbatch-args and `sbatch --version`"),
    Refusal("invalid option", SettingsError, "Check --sbatch-args and `sbatch --version`"),
    Refusal("node configuration", SettingsError, "`sinfo --Node --long` lists what nodes have"),
    Refusal("node count", SettingsError, "`sinfo` lists how many nodes there are"),
    Refusal("Unable to contact", ToolError, "`scontrol ping` says whether the controller is up"),
)


def make_sbatch_error(message: str) -> GpuProfileError:
    """Return the error that sbatch's message means, with what to do."""
    what = f"Slurm refused the job: {message}"
    unknown = JobError(what, "--dry-run shows the script that it refused")
    return explain_refusal(_REFUSALS, message, what, unknown)


def parse_scontrol(line: str) -> JobStatus:
    """Return the status of a line of `scontrol show job ID --oneliner`.

    JobName stands before the other fields. Our job names have no spaces, so they cannot look like
    one.
    """
    facts = dict(re.findall(r" ([A-Z]\w*)=(\S*)", line))
    return _make_status(
        facts.get("JobState", ""),
        code=facts.get("ExitCode", ""),
        reason=facts.get("Reason", ""),
        limit=facts.get("TimeLimit", ""),
        nodes=facts.get("NodeList", ""),
        restarts=int(facts.get("Restarts", "0")),
    )


SACCT_FIELDS = ("JobName", "State", "ExitCode", "Timelimit", "NodeList")


def parse_sacct(output: str) -> JobStatus | None:
    """Return the status of sacct's rows (SACCT_FIELDS, `--parsable2 --duplicates`), or None.

    Each row is an attempt; the last row counts. Slurm may give a number again: such rows have
    another job name. A cancelled job's state reads `CANCELLED by 1000`.
    """
    rows = [line.split("|") for line in output.splitlines()]
    rows = [row for row in rows if len(row) == len(SACCT_FIELDS)]
    if not rows:
        return None
    name, state, code, limit, nodes = rows[-1]
    return _make_status(
        state.split(" ")[0].rstrip("+"),
        code=code,
        limit=limit,
        nodes=nodes,
        restarts=sum(row[0] == name for row in rows) - 1,
    )


def apply_end_line(status: JobStatus, ended: str) -> JobStatus:
    """Return Slurm's status, corrected by the line that our script wrote last.

    `ended` is that line: `exit code 1 of task 3`, `stopped`, `time limit`, or empty if the script
    was killed.
    """
    word = ended.strip()
    if status.state is JobState.SUCCEEDED:
        return status
    if word in _ENDED:
        state, reason = _ENDED[word]
        return JobStatus(state=state, reason=reason.format(limit=""), exit_code=status.exit_code)
    code = _EXIT.fullmatch(word)
    return replace(status, reason=status.reason or _find_first_failure(code)) if code else status


def from_ended(ended: str) -> JobStatus:
    """Return the status of a job that Slurm has forgotten, from its script's last line alone."""
    code = _EXIT.fullmatch(ended.strip())
    if code:
        state = JobState.FAILED if int(code["code"]) else JobState.SUCCEEDED
        return JobStatus(state=state, exit_code=int(code["code"]), reason=_find_first_failure(code))
    if ended.strip() in _ENDED:
        return apply_end_line(JobStatus(state=JobState.FAILED), ended)
    return JobStatus(state=JobState.FAILED, reason="Slurm knows no such job any more")


def _find_first_failure(code: re.Match[str]) -> str:
    """Return which tasks failed before srun ended the others, as in `task 3 failed first`."""
    return f"{code['tasks']} failed first" if code["tasks"] else ""


def _make_status(
    word: str, *, code: str, limit: str = "", nodes: str = "", restarts: int = 0, reason: str = ""
) -> JobStatus:
    state = STATES.get(word, JobState.UNKNOWN)
    waiting = state is JobState.PENDING
    why = reason if waiting and reason != "None" else _REASONS.get(word, "")
    why = why.format(limit=f" of {limit}" if limit else "", nodes=f" ({nodes})" if nodes else "")
    if restarts:
        again = f"requeued {restarts} times" if restarts > 1 else "requeued once"
        why = f"{again}; {why}" if why else again
    exit_code, _, signal = code.partition(":")
    ended = int(exit_code or 0) or (128 + int(signal or 0) if signal not in ("", "0") else 0)
    return JobStatus(state=state, reason=why, exit_code=ended if state.is_finished else None)
