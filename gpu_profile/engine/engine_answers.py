"""What a docker command answered: errors with what to do, and an engine that does not answer."""

from gpu_profile.command import Command, Result, Steps, make_command
from gpu_profile.engine.probe import SOCKET_ADVICE
from gpu_profile.errors import (
    EngineAwayError,
    GpuProfileError,
    JobError,
    Refusal,
    SettingsError,
    ToolError,
    explain_refusal,
)
from gpu_profile.process import NO_ANSWER

NO_DAEMON = "Cannot connect to the Docker daemon"
_REFUSALS = (
    Refusal("port is already allocated", SettingsError, "Set another PORT_MAP"),
    Refusal("address already in use", SettingsError, "Set another PORT_MAP"),
    Refusal("No such image", ToolError, "`invoke build` makes it, `invoke pull` fetches it"),
    Refusal(NO_DAEMON, ToolError, "`invoke doctor --fix` starts one"),
    Refusal("permission denied while trying to connect", ToolError, SOCKET_ADVICE),
    Refusal(
        "could not select device driver",
        ToolError,
        "Install NVIDIA's container toolkit, or use --gpus 0",
    ),
    Refusal("executable file not found", JobError, "Name a program that is in the image"),
    Refusal("No such container", SettingsError, "`invoke run` starts it"),
    Refusal("is not running", SettingsError, "`invoke run` starts it"),
    Refusal("error setting rlimit", ToolError, "The engine's host allows no such --ulimit"),
    Refusal("No space left on device", ToolError, "`docker system df` shows what may go"),
    Refusal(NO_ANSWER, EngineAwayError, "A job may run on: `invoke fetch` goes on once it answers"),
)
_AWAY = (
    NO_DAEMON,
    "error during connect",
    "connection refused",
    "connection reset by peer",
    "broken pipe",
    "EOF",
    "i/o timeout",
    "shutting down",
    NO_ANSWER,
)
"""What the docker CLI says while its engine restarts or the way to it is cut; or a hang."""
AWAY_S = 120
"""How long an engine that does not answer is waited for. A restart takes 1 to 30 s."""
_PAUSE_S = 5


def is_engine_away(result: Result) -> bool:
    """Return whether a docker command failed because the engine does not answer."""
    text = result.stderr
    refused = "permission denied" in text
    return bool(result.returncode) and not refused and any(word in text for word in _AWAY)


def has_hung(result: Result) -> bool:
    """Return whether the engine was silent for two minutes already, as one that hangs."""
    return NO_ANSWER in result.stderr


def ask_patiently(command: Command) -> Steps[Result]:
    """Return the result of a docker command, tried for two minutes while the engine is away.

    For commands that may run twice, such as `docker container inspect`.
    """
    result = yield command
    for _ in range(AWAY_S // _PAUSE_S):
        if not is_engine_away(result) or has_hung(result):
            break
        yield make_command("sleep", str(_PAUSE_S))
        result = yield command
    return result


def make_engine_error(result: Result, doing: str) -> GpuProfileError:
    """Return the error that an engine's message means, with what to do."""
    what = f"{doing}: {extract_reason(result)}"
    unknown = JobError(what, "See the engine's message")
    return explain_refusal(_REFUSALS, result.stderr, what, unknown)


def extract_reason(result: Result) -> str:
    """Return the engine's message without the advice at its end (`See 'docker run --help'`)."""
    lines = [line for line in result.stderr.splitlines() if line.strip() and "--help" not in line]
    return lines[-1].removeprefix("docker: ") if lines else result.last_line


def check_engine_result(result: Result, doing: str) -> Result:
    """Return the result. Raises the error of make_engine_error if the engine refused."""
    if result.returncode:
        raise make_engine_error(result, doing)
    return result
