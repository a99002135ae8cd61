"""Checks for building and running images on this machine."""

from collections.abc import Iterator

from gpu_profile import process
from gpu_profile.declared.check import Check
from gpu_profile.engine.image_programs import ask_server_version
from gpu_profile.engine.probe import OLDEST, SOCKET_ADVICE, Engine, is_recent, probe_engine
from gpu_profile.errors import ToolError


def check_engine(engine: Engine) -> tuple[Check, ...]:
    """Return the checks of engine and buildx, with what to do about each."""
    fix = "`invoke doctor --fix` installs and starts it on Debian and Ubuntu"
    return (
        Check(
            name="docker client",
            ok=bool(engine.client),
            result=engine.client,
            advice=fix,
            is_required=True,
        ),
        Check(
            name="docker engine",
            ok=is_recent(engine.server),
            result=_describe_engine(engine),
            advice=_choose_advice(engine) or fix,
            is_required=True,
        ),
        Check(
            name="docker buildx",
            ok=bool(engine.buildx),
            result=engine.buildx,
            advice=fix,
            is_required=True,
        ),
        *_check_machine(engine),
    )


def _check_machine(engine: Engine) -> Iterator[Check]:
    """Yield the checks of what an engine that answers tells of its machine."""
    space = engine.free_gib
    if space is not None:
        yield Check(
            name="docker disk space",
            ok=space >= 15,
            result=f"{space:.0f} GiB free in {engine.root}",
            advice="An image takes 3 to 15 GiB: `docker system prune` makes room",
        )
    if engine.server:
        yield Check(
            name="docker GPUs",
            ok=engine.has_gpus,
            result="nvidia runtime" if engine.has_gpus else "no nvidia runtime: jobs run on CPUs",
            advice="For GPUs install the NVIDIA driver and the NVIDIA Container Toolkit",
        )


def _describe_engine(engine: Engine) -> str:
    """Return the engine's version, or why this user cannot use it."""
    if engine.server:
        return f"{engine.server}, rootless" if engine.rootless else engine.server
    if engine.refuses_user:
        return f"permission denied at {engine.endpoint.removeprefix('unix://') or 'its socket'}"
    return engine.problem


def _choose_advice(engine: Engine) -> str:
    """Return what to do about the engine; empty if an installation is enough."""
    if engine.server:
        return f"Docker Engine {OLDEST.major} or newer is needed"
    if engine.rootless_socket and engine.endpoint != f"unix://{engine.rootless_socket}":
        return (
            f"Your rootless engine has a socket: export DOCKER_HOST=unix://{engine.rootless_socket}"
        )
    if engine.refuses_user:
        return SOCKET_ADVICE
    if not engine.is_systems:
        return (
            f"No engine answers at {engine.endpoint}, which DOCKER_HOST or `docker context` names:"
            " start it there, or `unset DOCKER_HOST` and `docker context use default`"
        )
    return ""


def require_engine(engine: Engine) -> None:
    """Raise ToolError, with the advice, for the first thing that a build needs and lacks."""
    for check in check_engine(engine):
        if check.is_required and not check.ok:
            raise ToolError(f"{check.name}: {check.result or 'not there'}", check.advice)


def require_running_engine() -> None:
    """Raise ToolError if there is no engine. One quick command if there is one."""
    try:
        version_result = process.run(ask_server_version())
    except ToolError:
        version_result = None
    if version_result is None or version_result.returncode:
        require_engine(process.drive(probe_engine()))
