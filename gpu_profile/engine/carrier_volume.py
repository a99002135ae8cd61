"""The carrier of a job in Docker: a volume that the engine fills from our image, once a digest."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_profile.carrier import CARRIED_TO, Carrier
from gpu_profile.command import ENGINE, Result, Steps, make_command, make_engine_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import container, engine_answers
from gpu_profile.errors import Refusal, ToolError, explain_refusal
from gpu_profile.job import Job, Mount

LABEL = "gpu-profile.carrier"
_ALONE = ("--rm", "--pull=never", "--network=none")
_NO_PROGRAM = frozenset({126, 127})
"""What `docker run` exits with where the entrypoint cannot be started."""
_BUILD = "`invoke build` with INSTALL_CARRIER=true makes one that does"
_REFUSALS = (
    Refusal("exec format error", ToolError, "Build the carrier's image on such a machine"),
    Refusal("no such file or directory", ToolError, "It takes an image with glibc, as Debian has"),
    Refusal("GLIBC_", ToolError, "It takes a newer image"),
    Refusal("which is not here", ToolError, "Install its package in the image, such as libgcc-s1"),
    Refusal("nsys records in", ToolError, "RUN_OPTS=--tmpfs=/tmp gives the container one"),
)
"""What carried.py, the loader or the engine says where the carrier does not run in an image.

An image with musl has no loader for programs of glibc: the kernel says that the program is missing.
"""


def read_config(image: ImageRef) -> Steps[Mapping[str, Any]]:
    """Return the Config of an image of the engine. Raises ToolError where it has no such image."""
    answer = yield make_engine_command("image", "inspect", "--format={{json .Config}}", str(image))
    text = engine_answers.check_engine_result(answer, f"looking for {image}").stdout
    config: Mapping[str, Any] = json.loads(text or "null") or {}
    return config


def is_ours(config: Mapping[str, Any]) -> bool:
    """Return whether an image is of this project, and has nsys and our agent."""
    return any(name.startswith(f"{container.IMAGE_LABEL}.") for name in config.get("Labels") or ())


def describe_carrier(image: ImageRef) -> Steps[Mapping[str, str]]:
    """Return the facts of the carrier in an image of ours: `{"digest": …, "glibc": "2.29", …}`.

    Raises ToolError for an image without one.
    """
    ask = (f"{CARRIED_TO}/agent/carried.py", "describe", CARRIED_TO)
    described = yield make_command(
        *(ENGINE, "run", *_ALONE, "--entrypoint=python3", str(image), *ask)
    )
    if described.returncode in {2, 3}:
        raise ToolError(f"{image} holds no nsys that could be carried", _BUILD)
    text = engine_answers.check_engine_result(described, f"asking {image} for its nsys").stdout
    # --dry-run has no answer
    facts: Mapping[str, str] = json.loads(text or '{"digest": "0123456789ab", "glibc": "2.29"}')
    return facts


def fill_volume(image: ImageRef) -> Steps[Carrier]:
    """Return the carrier of our image, in a volume. The engine copies it there the first time."""
    facts = yield from describe_carrier(image)
    volume = f"gpu-profile-{facts['digest'][:12]}"
    creation = yield make_engine_command(
        "volume", "create", f"--label={LABEL}={facts['digest']}", volume
    )
    engine_answers.check_engine_result(creation, f"making the volume {volume}")
    # The engine copies what the image has at the target into a volume that is empty:
    # https://docs.docker.com/engine/storage/volumes/
    mount = f"--mount=type=volume,source={volume},target={CARRIED_TO}"
    copying = yield make_command(*(ENGINE, "run", *_ALONE, mount, "--entrypoint=true", str(image)))
    engine_answers.check_engine_result(copying, f"copying nsys to the volume {volume}")
    return Carrier(source=volume, digest=facts["digest"], glibc=facts["glibc"])


def carry(job: Job, carrier: Carrier, config: Mapping[str, Any]) -> Job:
    """Return the job with the carrier, and with the image's entrypoint before its command.

    `docker run` starts the entrypoint with the command as its arguments: so does nsys.
    """
    command = (*(config.get("Entrypoint") or ()), *job.command)
    return dataclasses.replace(job, carrier=carrier, command=command)


def mount_options(carrier: Carrier, program: str = "") -> tuple[str, ...]:
    """Return the `docker run` options for a container that has the carrier.

    It starts `program`, by default the carrier's Python.
    """
    entrypoint = f"--entrypoint={program or carrier.python}"
    if carrier.is_agent:
        mount = Mount(source=Path(carrier.source), target=carrier.agent, read_only=True)
        return (container.mount_option(mount), entrypoint)
    place = f"source={carrier.source},target={carrier.directory}"
    # volume-nocopy: what a user's image has at that path must not fill the volume.
    return (f"--mount=type=volume,{place},readonly,volume-nocopy", entrypoint)


def bring_agent(agent: Path, image: ImageRef) -> Steps[Carrier]:
    """Return the carrier of our agent alone, for an image whose Python runs it.

    Raises ToolError for an image with no such Python.
    """
    words = (ENGINE, "run", *_ALONE, "--entrypoint=python3", str(image))
    answer = yield make_command(*words, "-c", "import sys; sys.exit(sys.version_info < (3, 8))")
    if answer.returncode in {1, *_NO_PROGRAM}:
        what = f"{image} has no python3 of 3.8 or newer, which --with torch needs"
        raise ToolError(what, "Name the image in which the PyTorch program runs")
    engine_answers.check_engine_result(answer, f"asking {image} for its Python")
    return Carrier(source=str(agent), is_agent=True)


def check_container(carrier: Carrier, image: ImageRef, options: Sequence[str]) -> Steps[None]:
    """Raise ToolError where nsys does not work in a container of the image with these options."""
    words = (ENGINE, "run", "--rm", "--pull=never", *options, *mount_options(carrier))
    check = (carrier.checker, "check", carrier.directory)
    _refuse_fault((yield make_command(*words, str(image), *check)), image, carrier)


def _refuse_fault(result: Result, image: ImageRef, carrier: Carrier) -> None:
    if result.returncode == 0:
        return
    what = f"nsys cannot be carried to {image}: {_describe_fault(result, carrier)}"
    raise explain_refusal(
        _REFUSALS, result.stderr, what, engine_answers.make_engine_error(result, what)
    )


def _describe_fault(result: Result, carrier: Carrier) -> str:
    text = result.stderr
    if "exec format error" in text:
        return "it is of another architecture"
    if result.returncode != 3 and "no such file or directory" in text:
        return "it has no glibc (Alpine has musl)"
    if result.returncode != 3 and "GLIBC_" in text:
        return f"its glibc is older than {carrier.glibc}"
    return result.last_line
