"""What several verbs share: settings from the flags, the run they mean, how a table is shown."""

import importlib
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from gpu_profile import process, rundir, settings
from gpu_profile.analysis.table import Table
from gpu_profile.command import Command
from gpu_profile.errors import GpuProfileError, SettingsError, did_you_mean
from gpu_profile.launchers.base import ImageFrom, Launcher
from gpu_profile.rundir import Run
from gpu_profile.settings import Settings
from gpu_profile.spec import Handle, LauncherName
from gpu_profile.verbs import VERBS, WHERE, Options, Verb

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(".gpu-profile") / "images.json"
"""The digests that push was told, by tag."""
_CONTAINERS = "Leave it out, or use one that has: docker, Kubernetes' own, slurm with --image"
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)


def load_settings(verb: Verb, options: Options) -> Settings:
    """The settings of .env here, under the environment, `--set` and the flags that name a key."""
    flags = [
        f"{setting}={value}"
        for option in verb.options
        if (value := options[option.name.replace("-", "_")])
        for setting in option.settings
    ]
    return settings.load(
        Path(".env"),
        options["environ"],
        [*options["set"], *flags],
        with_dependencies=bool(options.get("with_dependencies")),
    )


def call(name: str, options: Options, **flags: object) -> None:
    """Another verb, as if typed with these flags and the same --set."""
    verb = next(verb for verb in VERBS if verb.name == name)
    defaults = {option.name.replace("-", "_"): option.default for option in verb.options}
    shared = {key: options[key] for key in ("set", "environ", "with_dependencies")}
    module = importlib.import_module(f"gpu_profile.verbs.{verb.module}")
    getattr(module, verb.function)(verb, {**defaults, **shared, "words": (), **flags})


def launcher_of(name: LauncherName, chosen: Settings) -> Launcher:
    from gpu_profile.launchers.rows import LAUNCHERS  # only verbs that start jobs pay for all

    return LAUNCHERS[name](chosen)


def run_at_home(options: Options, chosen: Settings) -> tuple[Path, Run] | None:
    """The directory and record of the run that --job means, where its engine has nothing left."""
    wanted = str(options["job"])
    if not wanted:
        return None
    try:
        directory = rundir.find(chosen.report_dir, wanted)
    except SettingsError:
        return None
    run = rundir.load(directory)
    return (directory, run) if run.cleaned else None


def job_of(options: Options, chosen: Settings) -> tuple[Launcher, str] | None:
    """The launcher and id that --job means, by handle or run id; None without the flag."""
    wanted = str(options["job"])
    if not wanted:
        return None
    if "://" not in wanted:
        wanted = rundir.load(rundir.find(chosen.report_dir, wanted)).handle
    handle = Handle.parse(wanted)
    return launcher_of(handle.launcher, chosen), handle.id


def output_file(options: Options, name: str) -> Path | None:
    """--output as a file that can be written, in a folder under `name`; None without the flag.

    Raises SettingsError where it cannot, before minutes are spent on what it is to hold.
    """
    given = str(options["output"])
    if not given:
        return None
    path = Path(given, name) if Path(given).is_dir() or given.endswith("/") else Path(given)
    make_folder(path.parent)
    return path


def make_folder(folder: Path) -> None:
    """Raises SettingsError where nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--output {folder}: {error.strerror}", "Name another place") from error
    if not os.access(folder, os.W_OK):
        raise SettingsError(f"--output {folder}: no right to write there", "Name another place")


def nearest(flag: str, name: str, known: Iterable[str]) -> NoReturn:
    """Refuse a name with the one that was probably meant, and all there are."""
    names = list(known)
    hint = f"{did_you_mean(name, names)} There are {', '.join(names)}"
    raise SettingsError(f"{flag} {name!r} is not known", hint)


def words(options: Options, flag: str) -> tuple[str, ...]:
    """A flag's value as shell words."""
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
    """A flag of another launcher, or of a container where there is none, would do nothing."""
    given = [option for option in WHERE if option.of and options[option.name.replace("-", "_")]]
    for option in given:
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
    """--nodes, where the launcher can have so many."""
    at_least(options, "nodes", 1)
    nodes = int(options["nodes"])
    if nodes > 1 and launcher.one_node:
        what = f"--nodes {nodes}: jobs of {launcher.name} are one machine's"
        raise SettingsError(what, "Use --on slurm, mpijob, pytorchjob or trainjob")
    return nodes


def show_commands(commands: Iterable[Command]) -> None:
    """What --dry-run prints: each command as a line to paste, its input below it."""
    for command in commands:
        print(command)
        if command.stdin:
            print(command.stdin.rstrip("\n"))


def run_or_raise(command: Command, kind: type[GpuProfileError]) -> None:
    """Run on the user's terminal; a failure is one line of that kind."""
    code = process.run_attached(command)
    if code in _INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise kind(f"`{command}` exited with {code}", "See its message above")


def confirmed(question: str, options: Options) -> bool:
    """The user's yes: by --yes, or on a terminal."""
    if options.get("yes"):
        return True
    return sys.stdin.isatty() and input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def show(tables: Sequence[Table], form: str) -> None:
    """Print tables as text (sized to the terminal), CSV or JSON."""
    from gpu_profile.analysis import writers

    if form == "json":
        sys.stdout.write(writers.to_json(tables))
    elif form == "csv":
        sys.stdout.write("\n".join(writers.to_csv(table) for table in tables))
    elif form == "text":
        width = shutil.get_terminal_size((120, 40)).columns
        sys.stdout.write("\n".join(writers.to_text(table, width) for table in tables))
    else:
        raise SettingsError(f"--format {form!r} is not known", "Use text, csv or json")
