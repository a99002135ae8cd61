"""Containers of the local engine as commands, and what the engine's refusals mean."""

import csv
import io
import json
import shlex
from collections.abc import Mapping
from typing import Any

from gpu_profile.command import Command, Result, Steps, command
from gpu_profile.engine.probe import SOCKET_ADVICE
from gpu_profile.errors import GpuProfileError, JobError, SettingsError, ToolError
from gpu_profile.image_ref import ImageRef
from gpu_profile.job import Mount
from gpu_profile.settings.settings import Settings

REPORTS_INSIDE = "/wd"
_REFUSALS: tuple[tuple[str, type[GpuProfileError], str], ...] = (
    ("is already in use by container", SettingsError, "`invoke stop` it, or set CONTAINER"),
    ("port is already allocated", SettingsError, "Set another PORT_MAP"),
    ("address already in use", SettingsError, "Set another PORT_MAP"),
    ("No such image", ToolError, "`invoke build` makes it, `invoke pull` fetches it"),
    ("no such image", ToolError, "`invoke build` makes it, `invoke pull` fetches it"),
    ("Cannot connect to the Docker daemon", ToolError, "`invoke doctor --fix` starts one"),
    ("permission denied while trying to connect", ToolError, SOCKET_ADVICE),
    (
        "could not select device driver",
        ToolError,
        "Install NVIDIA's container toolkit, or use --gpus 0",
    ),
    ("executable file not found", JobError, "Name a program that is in the image"),
    ("No such container", SettingsError, "`invoke run` starts it"),
    ("is not running", SettingsError, "`invoke run` starts it"),
    ("error setting rlimit", ToolError, "The engine's host allows no such --ulimit"),
    ("No space left on device", ToolError, "`docker system df` shows what may go"),
)


def refusal(result: Result, doing: str) -> GpuProfileError:
    """The error that an engine's message means."""
    for words, kind, hint in _REFUSALS:
        if words in result.stderr:
            return kind(f"{doing}: {_reason(result)}", hint)
    return JobError(f"{doing}: {_reason(result)}", "See the engine's message")


def _reason(result: Result) -> str:
    """The engine's message without the advice it ends with."""
    lines = [line for line in result.stderr.splitlines() if line.strip() and "--help" not in line]
    return lines[-1].removeprefix("docker: ") if lines else result.said


def checked(result: Result, doing: str) -> Result:
    if result.returncode:
        raise refusal(result, doing)
    return result


def mount_option(mount: Mount) -> str:
    """A --mount value; the engine reads it as a CSV record, so a path may hold a comma."""
    record = io.StringIO()
    words = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    csv.writer(record, lineterminator="").writerow([*words, *(["readonly"] * mount.read_only)])
    return f"--mount={record.getvalue()}"


def placement(settings: Settings) -> tuple[str, ...]:
    """The `docker run` options that settings choose for every container."""
    network = (f"--network={settings.network}",) if settings.network else ()
    return (
        f"--shm-size={settings.shm_size}",
        *network,
        *shlex.split(settings.vol_map),
        *shlex.split(settings.run_opts),
    )


def inspect(name: str) -> Command:
    return command("docker", "container", "inspect", "--format={{json .State}}", name)


def parse_state(result: Result) -> Mapping[str, Any] | None:
    """The engine's State object; None where there is no such container."""
    if result.returncode:
        if "no such container" in result.stderr.lower():
            return None
        raise refusal(result, "asking for the container")
    if not result.stdout:  # a plan, for --dry-run: nothing was asked
        return None
    state: Mapping[str, Any] = json.loads(result.stdout)
    return state


def started(run: Command, name: str) -> Steps[None]:
    """A `docker run --detach`; what the engine made and could not start is removed again."""
    result = yield run
    if result.returncode and "already in use by container" not in result.stderr:
        yield command("docker", "container", "rm", "--force", name)
    checked(result, f"starting {name}")


def start(settings: Settings, image: ImageRef, gpus: tuple[str, ...]) -> Steps[str]:
    """Start the local container, or find it running. Returns what was done."""
    name = settings.container
    state = parse_state((yield inspect(name)))
    if state and state["Running"]:
        return f"{name} runs already"
    if state:
        checked((yield command("docker", "container", "rm", name)), f"removing {name}")
    reports = Mount(source=settings.report_dir, target=REPORTS_INSIDE)
    run = command(
        *("docker", "run", "--detach", "--pull=never", f"--name={name}"),
        *(mount_option(reports), *placement(settings), *gpus),
        *shlex.split(settings.port_map),
        str(image),
    )
    yield from started(run, name)
    return f"{name} started from {image}"


def execute(name: str, argv: tuple[str, ...], *, terminal: bool) -> Command:
    return command("docker", "exec", *(["-it"] if terminal else []), name, *argv)


def logs(name: str, *, follow: bool) -> Command:
    return command("docker", "logs", *(["--follow"] if follow else []), name)


def present(name: str, *, running: bool) -> Steps[None]:
    """Raises ToolError where there is no such container, or one that has ended."""
    state = parse_state((yield inspect(name)))
    if state is None or (running and not state["Running"]):
        what = f"{name} has ended" if state else f"there is no container {name}"
        raise ToolError(what, "`invoke run` starts it")


def stop(name: str) -> Steps[str]:
    """Stop and remove the local container, or find none."""
    state = parse_state((yield inspect(name)))
    if state is None:
        return f"{name} does not run"
    checked((yield command("docker", "stop", name)), f"stopping {name}")
    checked((yield command("docker", "container", "rm", name)), f"removing {name}")
    return f"{name} stopped"


def gpu_options(gpus: int | None) -> tuple[str, ...]:
    """GPUs, and the pinned memory and stack that NCCL asks for with them."""
    if gpus == 0:
        return ()
    return (
        f"--gpus={'all' if gpus is None else gpus}",
        *("--ulimit=memlock=-1", "--ulimit=stack=67108864"),
    )
