"""Commands for containers of the local engine, and the meaning of the engine's errors."""

import csv
import io
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_profile.command import ENGINE, Command, Result, Steps, make_command, make_engine_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.probe import SOCKET_ADVICE
from gpu_profile.errors import (
    EngineAwayError,
    GpuProfileError,
    JobError,
    NameTakenError,
    Refusal,
    SettingsError,
    ToolError,
    explain_refusal,
)
from gpu_profile.job import REPORTS_INSIDE, Mount
from gpu_profile.process import NO_ANSWER
from gpu_profile.settings.settings import Settings

RUN_LABEL, CONTAINER_LABEL = "gpu-profile.run", "gpu-profile.container"
IMAGE_LABEL = "io.github.gpu-profile"
"""The prefix of our image's labels. A container inherits the labels of its image."""
_NAME_IN_USE = "is already in use by container"
_REFUSALS = (
    Refusal("port is already allocated", SettingsError, "Set another PORT_MAP"),
    Refusal("address already in use", SettingsError, "Set another PORT_MAP"),
    Refusal("No such image", ToolError, "`invoke build` makes it, `invoke pull` fetches it"),
    Refusal("Cannot connect to the Docker daemon", ToolError, "`invoke doctor --fix` starts one"),
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


_NO_ENGINE = "Cannot connect to the Docker daemon"
_AWAY = (
    _NO_ENGINE,
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
    what = f"{doing}: {_extract_reason(result)}"
    unknown = JobError(what, "See the engine's message")
    return explain_refusal(_REFUSALS, result.stderr, what, unknown)


def _extract_reason(result: Result) -> str:
    """Return the engine's message without the advice at its end (`See 'docker run --help'`)."""
    lines = [line for line in result.stderr.splitlines() if line.strip() and "--help" not in line]
    return lines[-1].removeprefix("docker: ") if lines else result.said


def check_engine_result(result: Result, doing: str) -> Result:
    if result.returncode:
        raise make_engine_error(result, doing)
    return result


def mount_option(mount: Mount) -> str:
    """Return a --mount value. The engine reads it as a CSV record, so a path may hold a comma."""
    record = io.StringIO()
    words = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    csv.writer(record, lineterminator="").writerow([*words, *(["readonly"] * mount.read_only)])
    return f"--mount={record.getvalue()}"


def list_placement_options(settings: Settings) -> tuple[str, ...]:
    """The `docker run` options that settings choose for every container."""
    network = (f"--network={settings.network}",) if settings.network else ()
    return (
        f"--shm-size={settings.shm_size}",
        *network,
        *shlex.split(settings.vol_map),
        *shlex.split(settings.run_opts),
    )


def inspect_container(name: str) -> Command:
    """Return the command that prints a container's State and, on a second line, its labels."""
    both = "--format={{json .State}}\n{{json .Config.Labels}}"
    return make_engine_command("container", "inspect", both, name)


def inspect_mounts(name: str) -> Command:
    """Return the command that prints a container's mounts."""
    return make_engine_command("container", "inspect", "--format={{json .Mounts}}", name)


def parse_mounts(result: Result) -> Mapping[str, Path]:
    """Return the folder of this machine behind each folder of a container."""
    mounts = json.loads(check_engine_result(result, "asking for the mounts").stdout or "null")
    return {mount["Destination"]: Path(mount["Source"]) for mount in mounts or ()}


def get_variables(name: str) -> Steps[dict[str, str]]:
    """Return a container's variables, with those of its image; none without such a container.

    Raises EngineAwayError if the engine does not answer for two minutes.
    """
    words = (ENGINE, "container", "inspect", "--format={{json .Config.Env}}", name)
    answer = yield from ask_patiently(make_command(*words))
    if "no such container" in answer.stderr.lower():
        return {}
    if is_engine_away(answer):
        what = f"{name} may run on: {_extract_reason(answer)}"
        raise EngineAwayError(what, f"`invoke fetch --job {name}` goes on")
    check_engine_result(answer, f"asking for the variables of {name}")
    entries: list[str] = json.loads(answer.stdout or "null") or []
    return {variable: value for variable, _, value in (entry.partition("=") for entry in entries)}


def parse_state(result: Result) -> Mapping[str, Any] | None:
    """Return the engine's State object, or None if there is no such container."""
    return parse_inspect(result)[0]


def parse_inspect(result: Result) -> tuple[Mapping[str, Any] | None, Mapping[str, str]]:
    """Return the engine's State object and the labels; None without such a container."""
    if result.returncode:
        if "no such container" in result.stderr.lower():
            return None, {}
        raise make_engine_error(result, "asking for the container")
    if not result.stdout:  # --dry-run: process.plan sends an empty result
        return None, {}
    state, _, labels = result.stdout.strip().partition("\n")
    return json.loads(state), json.loads(labels or "null") or {}


def is_ours(labels: Mapping[str, str], run_label: str) -> bool:
    """Return whether this project started a container.

    It has our own label or, started by `run` of an older version, the labels of our image.
    """
    return run_label in labels or any(name.startswith(f"{IMAGE_LABEL}.") for name in labels)


def start_detached(run: Command, name: str, *, again: str, name_in_use: str) -> Steps[None]:
    """Run a `docker run --detach`. A container that was created but did not start is removed.

    Raises EngineAwayError, with the hint `again`, if the engine went away before it answered, and
    NameTakenError, with the hint `name_in_use`, if another container has this name.
    """
    result = yield run
    if is_engine_away(result) and _NO_ENGINE not in result.stderr:
        reason = _extract_reason(result)
        raise EngineAwayError(f"{name} may run: its engine went away ({reason})", again)
    if result.returncode and _NAME_IN_USE in result.stderr:
        raise NameTakenError(f"starting {name}: {_extract_reason(result)}", name_in_use)
    if result.returncode:
        yield make_engine_command("container", "rm", "--force", name)
    check_engine_result(result, f"starting {name}")


def start_container(settings: Settings, image: ImageRef, gpus: tuple[str, ...]) -> Steps[str]:
    """Start the local container unless it runs already. Returns what was done.

    REPORT_DIR/<container> must exist; it is mounted at /wd/<container>.
    """
    name = settings.container
    state, labels = parse_inspect((yield inspect_container(name)))
    if state and state["Running"]:
        return f"{name} runs already"
    if state:
        _refuse_foreign(name, labels)
        check_engine_result(
            (yield make_engine_command("container", "rm", name)), f"removing {name}"
        )
    reports = Mount(source=settings.report_dir.absolute() / name, target=f"{REPORTS_INSIDE}/{name}")
    run = make_command(
        *(ENGINE, "run", "--detach", "--pull=never", f"--name={name}"),
        f"--label={CONTAINER_LABEL}={name}",
        *(mount_option(reports), *list_placement_options(settings), *gpus),
        *shlex.split(settings.port_map),
        str(image),
    )
    yield from start_detached(
        run,
        name,
        again="`invoke run` tries again",
        name_in_use="`invoke stop` it, or set another CONTAINER",
    )
    return f"{name} started from {image}"


def execute_in_container(name: str, argv: tuple[str, ...], *, terminal: bool) -> Command:
    if terminal:
        return make_engine_command("exec", "-it", name, *argv)
    return make_engine_command("exec", name, *argv)


def follow_logs(name: str, *, follow: bool) -> Command:
    if follow:
        return make_engine_command("logs", "--follow", name)
    return make_engine_command("logs", name)


def require_container(name: str, *, running: bool) -> Steps[None]:
    """Raise ToolError if there is no such container, or with `running` if it has ended."""
    state = parse_state((yield inspect_container(name)))
    if state is None or (running and not state["Running"]):
        what = f"{name} has ended" if state else f"there is no container {name}"
        raise ToolError(what, "`invoke run` starts it")


def _refuse_foreign(name: str, labels: Mapping[str, str]) -> None:
    if not is_ours(labels, CONTAINER_LABEL):
        raise SettingsError(f"`invoke run` did not start the container {name}", "Set CONTAINER")


def stop_container(name: str) -> Steps[str]:
    """Stop and remove the local container if it exists. Refuses one that we did not start."""
    state, labels = parse_inspect((yield inspect_container(name)))
    if state is None:
        return f"{name} does not run"
    _refuse_foreign(name, labels)
    check_engine_result((yield make_engine_command("stop", name)), f"stopping {name}")
    check_engine_result((yield make_engine_command("container", "rm", name)), f"removing {name}")
    return f"{name} stopped"


def gpu_options(gpus: int | None) -> tuple[str, ...]:
    """Return the docker options for GPUs, with the locked memory and stack that NCCL needs."""
    if gpus == 0:
        return ()
    return (
        f"--gpus={'all' if gpus is None else gpus}",
        *("--ulimit=memlock=-1", "--ulimit=stack=67108864"),
    )
