"""The local container of `run`, `attach`, `exec` and `stop`, which CONTAINER names."""

import shlex
from collections.abc import Mapping

from gpu_profile.command import ENGINE, Command, Steps, make_command, make_engine_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.container import (
    CONTAINER_LABEL,
    inspect_container,
    is_ours,
    list_placement_options,
    mount_option,
    parse_inspect,
    parse_state,
    start_detached,
)
from gpu_profile.engine.engine_answers import check_engine_result
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job import REPORTS_INSIDE, Mount
from gpu_profile.settings.settings import Settings


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
