"""Read flags: the settings that they override, and checks that several verbs need."""

import functools
import shlex
from collections.abc import Iterable
from typing import NoReturn

from gpu_profile.cli.jobs import load_launcher, name_launchers
from gpu_profile.cli.options.shared import (
    LAUNCHER_OPTIONS,
    SetOptions,
    SettingsOptions,
    WhereOptions,
)
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.progress import Progress
from gpu_profile.settings import settings
from gpu_profile.settings.lookup import find_settings_file
from gpu_profile.settings.settings import Settings


def load_settings(options: SetOptions) -> Settings:
    """Return the settings from the file, the environment, `--set` and the flags of this verb."""
    flags = [
        f"{setting}={value}"
        for option in options.list_options()
        if (value := options.value_of(option))
        for setting in option.settings
    ]
    file = find_settings_file(options.env_file, settings.NAMES)
    if file.is_misspelt:
        tell_note(file.note)
    return settings.load_settings(
        file.path,
        options.environ,
        [*options.set, *flags],
        with_dependencies=isinstance(options, SettingsOptions) and options.with_dependencies,
    )


@functools.cache
def tell_note(note: str) -> None:
    """Print a note once, however many verbs of a command line read the settings."""
    Progress().say(note)


def refuse_unknown(flag: str, name: str, choices: Iterable[str]) -> NoReturn:
    """Raise SettingsError with the most similar name and all valid names."""
    names = list(choices)
    hint = f"{did_you_mean(name, names)} There are {', '.join(names)}"
    raise SettingsError(f"{flag} {name!r} is not known", hint)


def split_words(flag: str, text: str) -> tuple[str, ...]:
    """Return a flag's value split as shell words."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"{flag} {text!r}: {error}") from error


def refuse_ignored(options: WhereOptions, launcher: Launcher, **flags: object) -> None:
    """Raise SettingsError for flags that this launcher would ignore.

    These are flags of other launchers, and --image and --mount, named in `flags`, for jobs without
    a container.
    """
    ignored = [option for option in LAUNCHER_OPTIONS if options.value_of(option)]
    for option in ignored:
        if launcher.name not in option.of:
            what = f"--{option.name} is for {', '.join(option.of)}; this job is for {launcher.name}"
            raise SettingsError(what, f"Use --on {option.of[0]}, or leave it out")
    for flag, value in flags.items():
        if value and launcher.images is ImageFrom.NOWHERE:
            what = f"--{flag}: this job of {launcher.name} runs in no container"
            hint = f"Leave it out, or use one that has: {_list_containers()}"
            raise SettingsError(what, hint)


def _list_containers() -> str:
    """Return the launchers whose jobs may have a container: `docker, slurm with --image`."""
    possible = {name: load_launcher(name).possible_images for name in LAUNCHERS}
    return ", ".join(
        f"{name} with --image" if ImageFrom.NOWHERE in images else name
        for name, images in possible.items()
        if images != {ImageFrom.NOWHERE}
    )


def at_least(flag: str, number: float, least: int) -> None:
    """Raise SettingsError for a smaller number."""
    if number < least:
        raise SettingsError(f"{flag} {number:g} is too small", f"Use {least} or more")


def check_nodes(nodes: int, launcher: Launcher) -> int:
    """Return --nodes. Raises SettingsError if the launcher has one node only."""
    at_least("--nodes", nodes, 1)
    if nodes > 1 and launcher.one_node:
        what = f"--nodes {nodes}: jobs of {launcher.name} are one machine's"
        several = name_launchers(lambda other: not other.one_node)
        raise SettingsError(what, f"Use --on {several}")
    return nodes
