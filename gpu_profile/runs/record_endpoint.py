"""record --url: a server starts and stops nsys by its own /start_profile and /stop_profile."""

import http.client
import time
from pathlib import Path

from gpu_profile import process
from gpu_profile.errors import ReportError, SettingsError, ToolError
from gpu_profile.launcher import Launcher
from gpu_profile.redact import split_url
from gpu_profile.runs.reports.validate import Report, find_reports

_BODY = b'{"activities": ["CUDA_PROFILER"]}'
"""SGLang starts nsys for this activity (scheduler_profiler_mixin.py). vLLM reads no body."""
_TIMEOUT_S = 120.0
_REPORT_S, _POLL_S = 300.0, 1.0
_NO_ENDPOINT = """vLLM has it with --profiler-config '{"profiler": "cuda"}', SGLang always"""


def record_by_url(
    launcher: Launcher, job_id: str, directory: Path, url: str, seconds: float
) -> list[Report]:
    """Record for some seconds, and return the reports that the window made, fetched."""
    address = _check_url(url)
    process.drive(launcher.fetch(job_id, directory))
    before = {report.path.name for report in find_reports(directory)}
    _post(f"{address}/start_profile")
    try:
        time.sleep(seconds)
    finally:
        _post(f"{address}/stop_profile")
    return _await_reports(launcher, job_id, directory, before)


def _check_url(url: str) -> str:
    parts = split_url(url)
    if not url.startswith(("http://", "https://")) or parts.plain != url:
        what = f"--url {parts.plain} is not a plain http address"
        raise SettingsError(what, "Use --url http://127.0.0.1:8000, without a password")
    return url.rstrip("/")


def _post(url: str) -> None:
    """Send a request. Raises ToolError unless the server accepts it."""
    import urllib.error  # 25 ms, which other verbs do not need
    import urllib.request

    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=_BODY, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        hint = _NO_ENDPOINT if error.code == 404 else "The server's own output says why"
        raise ToolError(f"{url} answers {error.code} {error.reason}", hint) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        hint = "`kubectl port-forward` or `ssh -L` reaches a server elsewhere"
        raise ToolError(f"{url} does not answer: {reason}", hint) from None


def _await_reports(
    launcher: Launcher, job_id: str, directory: Path, before: set[str]
) -> list[Report]:
    """Return the new reports once they grow no more."""
    sizes: dict[str, int] = {}
    deadline = time.monotonic() + _REPORT_S
    while time.monotonic() < deadline:
        process.drive(launcher.fetch(job_id, directory))
        new = [report for report in find_reports(directory) if report.path.name not in before]
        now = {report.path.name: report.path.stat().st_size for report in new}
        # No message tells that nsys has finished a report: its size has to stand still for 1 s.
        if now and now == sizes:
            return new
        sizes = now
        time.sleep(_POLL_S)
    what = "the server was asked to record, and nsys wrote no report"
    raise ReportError(what, "Was the job started by `invoke profile --record endpoint`?")
