"""Read flags: the settings that they override, and checks that several verbs need."""

import shlex
from collections.abc import Iterable
from typing import NoReturn

from gpu_profile.cli.run_verb import run_verb
from gpu_profile.cli.table import VERBS, WHERE, Options, Verb
from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.settings import settings
from gpu_profile.settings.lookup import find_settings_file
from gpu_profile.settings.settings import Settings

_CONTAINERS = "Leave it out, or use one that has: docker, Kubernetes' own, slurm with --image"


def load_settings(verb: Verb, options: Options) -> Settings:
    """Return the settings from the file, the environment, `--set` and the flags of this verb."""
    flags = [
        f"{setting}={value}"
        for option in verb.options
        if (value := options[option.name.replace("-", "_")])
        for setting in option.settings
    ]
    return settings.load_settings(
        find_settings_file(str(options["env_file"]), settings.NAMES).path,
        options["environ"],
        [*options["set"], *flags],
        with_dependencies=bool(options.get("with_dependencies")),
    )


def call(name: str, options: Options, **flags: object) -> None:
    """Call another verb with these flags and the same --set."""
    verb = next(verb for verb in VERBS if verb.name == name)
    defaults = {option.name.replace("-", "_"): option.default for option in verb.options}
    shared = {key: options[key] for key in ("set", "env_file", "environ", "with_dependencies")}
    run_verb(verb, {**defaults, **shared, "words": (), **flags})


def refuse_unknown(flag: str, name: str, choices: Iterable[str]) -> NoReturn:
    """Raise SettingsError with the most similar name and all valid names."""
    names = list(choices)
    hint = f"{did_you_mean(name, names)} There are {', '.join(names)}"
    raise SettingsError(f"{flag} {name!r} is not known", hint)


def split_words(options: Options, flag: str) -> tuple[str, ...]:
    """Return a flag's value split as shell words."""
    text = str(options[flag])
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"--{flag.replace('_', '-')} {text!r}: {error}") from error


def whole_number(flag: str, text: str) -> int:
    if not text.isdecimal():
        raise SettingsError(f"{flag} {text!r} is not a number", "Use 0, 1, 2, …")
    return int(text)


def refuse_ignored(options: Options, launcher: Launcher) -> None:
    """Raise SettingsError for flags that this launcher would ignore.

    These are flags of other launchers, and --image and --mount for jobs without a container.
    """
    ignored = [option for option in WHERE if option.of and options[option.name.replace("-", "_")]]
    for option in ignored:
        if launcher.name not in option.of:
            what = f"--{option.name} is for {', '.join(option.of)}; this job is for {launcher.name}"
            raise SettingsError(what, f"Use --on {option.of[0]}, or leave it out")
    for flag in ("image", "mount"):
        if options.get(flag) and launcher.images is ImageFrom.NOWHERE:
            what = f"--{flag}: this job of {launcher.name} runs in no container"
            raise SettingsError(what, _CONTAINERS)


def at_least(options: Options, flag: str, least: int) -> None:
    if options[flag] < least:
        raise SettingsError(f"--{flag} {options[flag]:g} is too small", f"Use {least} or more")


def nodes_of(options: Options, launcher: Launcher) -> int:
    """Return --nodes. Raises SettingsError if the launcher has one node only."""
    at_least(options, "nodes", 1)
    nodes = int(options["nodes"])
    if nodes > 1 and launcher.one_node:
        what = f"--nodes {nodes}: jobs of {launcher.name} are one machine's"
        raise SettingsError(what, "Use --on slurm, mpijob, pytorchjob or trainjob")
    return nodes
