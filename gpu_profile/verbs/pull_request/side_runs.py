"""Run the base and the change in turns, each under nsys in a run directory of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of, with_image
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.options.pull_request import CiOptions
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job
from gpu_profile.launcher import ImageFrom
from gpu_profile.progress import Progress
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.jobs.carry import plan_carried
from gpu_profile.verbs.jobs.job_from_flags import job_from
from gpu_profile.verbs.jobs.start_run import start_run
from gpu_profile.verbs.pull_request.base_tree import BaseTree

BASE, NEW = "base", "new"
_DIRECTORIES = ("workdir", "sync")
"""The flags of launchers that name the code's directory."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The flags of `profile` for a run of each side."""

    base: ProfileOptions
    new: ProfileOptions

    def name_run(self, side: str, pair: int) -> ProfileOptions:
        """Return the flags of a run, which is called `ci-base-1`."""
        options = self.base if side == BASE else self.new
        return replace(options, name=f"{options.name or 'ci'}-{side}-{pair}")


def order_runs(pairs: int) -> Iterator[tuple[int, str]]:
    """Yield (1, base), (1, new), (2, new), (2, base), …: a drift of the machine then cancels."""
    for pair in range(1, pairs + 1):
        sides = (BASE, NEW) if pair % 2 else (NEW, BASE)
        yield from ((pair, side) for side in sides)


def make_sides(options: CiOptions, tree: BaseTree | None) -> Sides:
    """Return the flags of both sides. Raises SettingsError where both would run the same code."""
    names = {field.name for field in fields(ProfileOptions)} & {f.name for f in fields(options)}
    shared = {name: getattr(options, name) for name in names}
    new = ProfileOptions(**{**shared, "no_html": True, "format": "text"})
    if tree is None:
        return Sides(base=replace(new, image=options.base_image), new=new)
    new = _name_directory(new)
    mounts = tuple(_move_mount(mount, tree) for mount in new.mount)
    flags = {
        name: tree.move_path(value) if name in _DIRECTORIES and value else value
        for name, value in new.launcher_flags.items()
    }
    if mounts == new.mount and flags == new.launcher_flags:
        what = f"the flags name no directory in {tree.change}, so both sides run the same code"
        raise SettingsError(what, "Name it by --mount, --workdir or --sync, or use --base-image")
    return Sides(base=replace(new, mount=mounts, launcher_flags=flags), new=new)


def _name_directory(options: ProfileOptions) -> ProfileOptions:
    """Return the flags with the directory of the code: by default this one."""
    if options.mount or any(options.launcher_flags.get(name) for name in _DIRECTORIES):
        return options
    launcher = launcher_of(load_settings(options).launcher, load_settings(options))
    if launcher.images is ImageFrom.ENGINE:
        return replace(options, mount=(".",))
    known = {flag.name for flag in LAUNCHERS[launcher.name].flags}
    for name in reversed(_DIRECTORIES):
        if name in known:
            flags = {**options.launcher_flags, name: str(Path.cwd())}
            return replace(options, launcher_flags=flags)
    return options


def _move_mount(mount: str, tree: BaseTree) -> str:
    source, colon, rest = mount.partition(":")
    return f"{tree.move_path(source)}{colon}{rest}"


def refuse_words(words: tuple[str, ...], tree: BaseTree) -> None:
    """Raise SettingsError for a path of the command that leads both sides to the change's code."""
    for word in words:
        moved = tree.move_path(word) if word.startswith("/") else word
        if moved != word and Path(moved).is_file():
            what = f"the command names {word}, which is the change's file in both runs"
            raise SettingsError(what, f"Write it from {tree.change} on")


def run_sides(sides: Sides, pairs: int) -> dict[str, list[Path]]:
    """Run all pairs, and return the run directories of each side in the order of the pairs.

    Raises the error of the first run that fails.
    """
    directories: dict[str, list[Path]] = {BASE: [], NEW: []}
    for pair, side in order_runs(pairs):
        Progress().say(f"pair {pair} of {pairs}: {'the base' if side == BASE else 'the change'}")
        directories[side].append(_run_once(sides.name_run(side, pair)))
    return directories


def _run_once(options: ProfileOptions) -> Path:
    """Run the job of these flags to its end, and return its run directory."""
    settings = with_image(apply_version(load_settings(options)), options.image)
    launcher = launcher_of(settings.launcher, settings)
    job = job_from(options, settings, launcher)
    job, plan, kinds = plan_carried(job, launcher, settings, options)
    process.drive(launcher.check_job(job, plan))
    secrets = redact.secret_values(options.environ)

    def name_job(name: str) -> Job:
        return replace(job, name=name)

    runner, run = start_run(job.name, name_job, launcher, settings, plan, kinds, secrets=secrets)
    runner.finish(run)
    return runner.directory
