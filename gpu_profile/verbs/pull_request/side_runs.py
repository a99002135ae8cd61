"""Run the base and the change in turns, each under nsys in a run directory of its own."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of, with_image
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.options.pull_request import CiOptions
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, Mount
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.progress import Progress
from gpu_profile.runs import record
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.jobs.carry import plan_carried
from gpu_profile.verbs.jobs.from_flags.job import image_of, job_from
from gpu_profile.verbs.jobs.from_flags.mounts import parse_mount
from gpu_profile.verbs.jobs.start_run import start_run
from gpu_profile.verbs.pull_request.base_tree import BaseTree

BASE, NEW = "base", "new"
TITLES = {BASE: "the base", NEW: "the change"}
_DIRECTORIES = ("workdir", "sync")
"""The flags of launchers that name the code's directory."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The job of one side's runs, and what starts it."""

    prefix: str
    job: Job
    launcher: Launcher
    settings: Settings
    options: ProfileOptions

    def name_run(self, pair: int) -> str:
        """Return the name of a run, such as ci-base-1-20261125-031500."""
        now = datetime.now(timezone.utc)
        return record.run_id(self.job.command, now, f"{self.prefix}-{pair}")


def order_runs(pairs: int) -> Iterator[tuple[int, str]]:
    """Yield (1, base), (1, new), (2, new), (2, base), …: a drift of the machine then cancels."""
    for pair in range(1, pairs + 1):
        sides = (BASE, NEW) if pair % 2 else (NEW, BASE)
        yield from ((pair, side) for side in sides)


def make_sides(options: CiOptions, tree: BaseTree | None) -> Mapping[str, Side]:
    """Return both sides. Raises SettingsError where both would run the same code."""
    names = {field.name for field in fields(ProfileOptions)} & {f.name for f in fields(options)}
    shared = {name: getattr(options, name) for name in names}
    profile_options = _name_directory(ProfileOptions(**{**shared, "no_html": True}))
    settings = with_image(apply_version(load_settings(profile_options)), options.image)
    launcher = launcher_of(settings.launcher, settings)
    job = job_from(profile_options, settings, launcher)
    new = Side(
        prefix=f"{options.name or 'ci'}-{NEW}",
        job=job,
        launcher=launcher,
        settings=settings,
        options=profile_options,
    )
    base = _move_code(new, tree) if tree else _replace_image(new, options.base_image)
    return {BASE: replace(base, prefix=f"{options.name or 'ci'}-{BASE}"), NEW: new}


def _replace_image(side: Side, image: str) -> Side:
    """Return the side with another image."""
    options = replace(side.options, image=image)
    settings = with_image(apply_version(load_settings(options)), image)
    launcher = launcher_of(settings.launcher, settings)
    job = replace(side.job, image=image_of(image, settings, launcher.images))
    return replace(side, job=job, launcher=launcher, settings=settings, options=options)


def _move_code(side: Side, tree: BaseTree) -> Side:
    """Return the side with the directories of the base. A container has these where the change's
    are, so that the command finds the same paths.
    """
    job, options = side.job, side.options
    mounts = tuple(_move_mount(mount, tree) for mount in job.mounts)
    flags = {
        name: _move_directory(value, tree) if name in _DIRECTORIES and value else value
        for name, value in options.launcher_flags.items()
    }
    if mounts == job.mounts and flags == options.launcher_flags:
        what = f"the flags name no directory in {tree.change}, so both sides run the same code"
        raise SettingsError(what, "Name it by --mount, --workdir or --sync, or use --base-image")
    if mounts == job.mounts:
        _refuse_words(options.words, tree)
    options = replace(options, launcher_flags=flags)
    settings = with_image(apply_version(load_settings(options)), options.image)
    launcher = launcher_of(settings.launcher, settings)
    return replace(
        side,
        job=replace(job, mounts=mounts),
        launcher=launcher,
        settings=settings,
        options=options,
    )


def _move_mount(mount: Mount, tree: BaseTree) -> Mount:
    """Return the mount of the base. Raises SettingsError for a directory that no job may have."""
    source = Path(_move_directory(str(mount.source), tree))
    if source != mount.source and not tree.commit:
        parse_mount(str(source))
    return replace(mount, source=source)


def _move_directory(path: str, tree: BaseTree) -> str:
    """Return a directory of the base. Raises SettingsError where the base has none."""
    directory = tree.move_path(path)
    if directory != path and not tree.holds(directory):
        what = f"{path} is not in the base, {tree.title}"
        raise SettingsError(what, "Name a directory that both have, or one outside the repository")
    return directory


def _name_directory(options: ProfileOptions) -> ProfileOptions:
    """Return the flags with the directory of the code: by default this one."""
    if options.mount or any(options.launcher_flags.get(name) for name in _DIRECTORIES):
        return options
    launcher = launcher_of(load_settings(options).launcher, load_settings(options))
    if launcher.images is ImageFrom.ENGINE:
        return replace(options, mount=(".",))
    names = {flag.name for flag in LAUNCHERS[launcher.name].flags}
    for name in reversed(_DIRECTORIES):
        if name in names:
            flags = {**options.launcher_flags, name: str(Path.cwd())}
            return replace(options, launcher_flags=flags)
    return options


def _refuse_words(words: tuple[str, ...], tree: BaseTree) -> None:
    """Raise SettingsError for a path of the command that leads both sides to the change's code."""
    for word in words:
        moved = tree.move_path(word) if word.startswith("/") else word
        if moved != word and Path(word).is_file() and tree.holds(moved):
            what = f"the command names {word}, which is the change's file in both runs"
            raise SettingsError(what, f"Write it from {tree.change} on")


def run_sides(
    sides: Mapping[str, Side], pairs: int, check_first: Callable[[str, Path], None]
) -> dict[str, list[Path]]:
    """Run all pairs, and return the run directories of each side in the order of the pairs.

    `check_first` gets the run of each side in the first pair, after that pair. Raises its error,
    and that of the first run that fails.
    """
    runs = {name: _plan_runs(side) for name, side in sides.items()}
    directories: dict[str, list[Path]] = {BASE: [], NEW: []}
    for pair, name in order_runs(pairs):
        progress = Progress(title=f"pair {pair} of {pairs}, {TITLES[name]}: ")
        directories[name].append(runs[name](pair, progress))
        if pair == 1 and all(directories.values()):
            for side in (BASE, NEW):
                check_first(side, directories[side][0])
    return directories


def _plan_runs(side: Side) -> Callable[[int, Progress], Path]:
    """Return the function that runs the side's job to its end, and returns its run directory."""
    launcher, settings = side.launcher, side.settings
    job, plan, kinds = plan_carried(side.job, launcher, settings, side.options)
    process.drive(launcher.check_job(job, plan))
    secrets = redact.secret_values(side.options.environ)

    def name_job(name: str) -> Job:
        return replace(job, name=name)

    def run_once(pair: int, progress: Progress) -> Path:
        start = functools.partial(start_run, secrets=secrets, progress=progress)
        runner, run = start(side.name_run(pair), name_job, launcher, settings, plan, kinds)
        runner.finish(run)
        return runner.directory

    return run_once
