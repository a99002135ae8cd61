"""The state of a Docker job, read from its container."""

from collections.abc import Mapping
from typing import Any

from gpu_profile.command import Result
from gpu_profile.engine import container
from gpu_profile.errors import SettingsError
from gpu_profile.job_status import JobState, JobStatus


def read_own_status(job_id: str, result: Result) -> JobStatus:
    """Return the state in what `docker container inspect` printed of a job's container.

    Raises SettingsError if there is no such container, or if `profile` did not start it.
    """
    state, labels = container.parse_inspect(result)
    if state and container.RUN_LABEL not in labels:
        what = f"the container {job_id} was not started by `invoke profile`"
        raise SettingsError(what, "`invoke reports` lists runs")
    return _make_status(job_id, state)


def _make_status(job_id: str, state: Mapping[str, Any] | None) -> JobStatus:
    if state is None:
        raise SettingsError(f"no container {job_id} on this engine", "`invoke reports` lists runs")
    if state["Status"] in {"created", "restarting"}:
        return JobStatus(state=JobState.PENDING, reason=state.get("Error", ""))
    if state["Status"] in {"running", "paused", "removing"}:
        return JobStatus(state=JobState.RUNNING)
    code = int(state["ExitCode"])
    reason = "out of memory" if state.get("OOMKilled") else str(state.get("Error") or "")
    done = JobState.SUCCEEDED if code == 0 else JobState.FAILED
    return JobStatus(state=done, reason=reason, exit_code=code)
