"""Commands for containers of the local engine, and the meaning of the engine's errors."""

import csv
import io
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_profile.command import ENGINE, Command, Result, Steps, make_command, make_engine_command
from gpu_profile.engine.engine_answers import (
    NO_DAEMON,
    ask_patiently,
    check_engine_result,
    extract_reason,
    is_engine_away,
    make_engine_error,
)
from gpu_profile.errors import EngineAwayError, NameTakenError
from gpu_profile.job import Mount
from gpu_profile.settings.settings import Settings

RUN_LABEL, CONTAINER_LABEL = "gpu-profile.run", "gpu-profile.container"
IMAGE_LABEL = "io.github.gpu-profile"
"""The prefix of our image's labels. A container inherits the labels of its image."""
_NAME_IN_USE = "is already in use by container"


def mount_option(mount: Mount) -> str:
    """Return a --mount value. The engine reads it as a CSV record, so a path may hold a comma."""
    record = io.StringIO()
    words = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        words.append("readonly")
    csv.writer(record, lineterminator="").writerow(words)
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
        what = f"{name} may run on: {extract_reason(answer)}"
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
    if is_engine_away(result) and NO_DAEMON not in result.stderr:
        reason = extract_reason(result)
        raise EngineAwayError(f"{name} may run: its engine went away ({reason})", again)
    if result.returncode and _NAME_IN_USE in result.stderr:
        raise NameTakenError(f"starting {name}: {extract_reason(result)}", name_in_use)
    if result.returncode:
        yield make_engine_command("container", "rm", "--force", name)
    check_engine_result(result, f"starting {name}")


def follow_logs(name: str, *, follow: bool) -> Command:
    if follow:
        return make_engine_command("logs", "--follow", name)
    return make_engine_command("logs", name)


def gpu_options(gpus: int | None) -> tuple[str, ...]:
    """Return the docker options for GPUs, with the locked memory and stack that NCCL needs.

    Docker's default of locked memory is too small for NCCL:
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    if gpus == 0:
        return ()
    return (
        f"--gpus={'all' if gpus is None else gpus}",
        # The values that NVIDIA's own images of frameworks ask for when they start.
        *("--ulimit=memlock=-1", "--ulimit=stack=67108864"),
    )


def is_rootless() -> Steps[bool]:
    """Return whether the engine runs as this user, so that a container's root is this user."""
    question = make_engine_command("info", "--format={{json .SecurityOptions}}")
    answer = yield from ask_patiently(question)
    return "name=rootless" in check_engine_result(answer, "asking the engine").stdout
