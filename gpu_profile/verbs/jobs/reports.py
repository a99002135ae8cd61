"""reports: list runs and their reports, and remove old ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import ReportsOptions
from gpu_profile.cli.terminal import ask_user, print_message, print_tables
from gpu_profile.errors import SettingsError
from gpu_profile.progress import Progress
from gpu_profile.runs import owner, prune, record
from gpu_profile.runs.follower import tell_left
from gpu_profile.runs.job_note import list_tags
from gpu_profile.runs.record import RUN_FILE, RunRecord
from gpu_profile.table import Cell, Column, Table
from gpu_profile.verbs.jobs.tag_run import tag_run, untag_run

_NAMES = ("Run", "Tags", "Phase", "Launcher", "Exit code", "Reports", "MB", "Cost", "Command")


def reports(options: ReportsOptions) -> None:
    """Print a table of the runs in REPORT_DIR; with --prune, remove old ones after showing them.

    With --tag or --untag, name a run or take the name away; with --trend compare its windows.
    """
    settings = load_settings(options)
    report_dir = settings.report_dir
    if options.tag or options.untag:
        _change_tags(report_dir, options)
        return
    if options.trend:
        from gpu_profile.verbs.jobs.trend import make_trend  # with numpy, 0.1 s

        print_tables([make_trend(options.run, settings)], options.format)
        return
    if options.run:
        what = "--run is for --tag and --trend"
        raise SettingsError(what, "Add --tag main, or --trend")
    if not options.prune and (options.older or options.keep):
        raise SettingsError("--keep and --older are for --prune", "Add --prune")
    tell_left(report_dir)
    if options.prune:
        prune_runs(report_dir, options)
        return
    runs, foreign = record.list_all_runs(report_dir)
    if runs or foreign or options.format != "text":
        print_tables([_make_table("runs", runs, foreign)], options.format)
    else:
        print_message(f"{report_dir} holds no runs; `invoke profile` makes one")


def _change_tags(report_dir: Path, options: ReportsOptions) -> None:
    if options.untag:
        directory = untag_run(report_dir, options.untag)
        Progress().say(f"{directory.name} is no longer tagged {options.untag}")
    if options.tag:
        directory = record.find_run(report_dir, options.run)
        before = tag_run(report_dir, options.tag, directory)
        note = f", which was {before.name} before" if before else ""
        Progress().say(f"{options.tag} is {directory.name}{note}")


def prune_runs(report_dir: Path, options: ReportsOptions) -> None:
    """Show the old runs, ask, and remove them. Runs of other users are never among them."""
    if not options.older and not options.keep:
        what = "--prune does not know which runs are old"
        raise SettingsError(what, "Use --older 30d, --keep 10, or both")
    age = prune.parse_age(options.older) if options.older else timedelta(0)
    old = prune.find_old_runs(report_dir, datetime.now(timezone.utc), options.keep, age)
    if old.spared_count:
        Progress().say(
            f"{old.spared_count} runs are left: tagged, not ended, damaged, or behind a link"
        )
    table = _make_table("old runs", old.removable, (), "none, so nothing is removed")
    print_tables([table], options.format)
    if not old.removable or options.dry_run:
        return
    size = sum(map(prune.measure_folder, old.removable)) / 1e6
    question = f"Remove these {len(old.removable)} runs, {size:.1f} MB, from {report_dir}?"
    if not ask_user(question, yes=options.yes):
        raise SettingsError("nothing was removed", "Answer y on a terminal, or use --yes")
    prune.remove_runs(old.removable)
    Progress().say(f"removed {len(old.removable)} runs, {size:.1f} MB")


def _make_table(
    title: str, runs: Sequence[Path], foreign: Sequence[Path], if_empty: str = "none"
) -> Table:
    rows = (*map(_make_row, runs), *map(_make_foreign_row, foreign))
    return Table(title, tuple(Column(name) for name in _NAMES), rows, if_empty)


def _make_row(directory: Path) -> tuple[Cell, ...]:
    """Return the row of a run. A damaged record affects its own row only."""
    size = round(prune.measure_folder(directory) / 1e6, 1)
    try:
        return _build_row(record.load_run(directory), ", ".join(list_tags(directory)), size)
    except SettingsError as error:
        return (directory.name, "", "damaged", None, None, None, size, "", error.what)


def _make_foreign_row(directory: Path) -> tuple[Cell, ...]:
    """Return the row of another user's run. Nothing in it is read."""
    whose = owner.describe_foreign(directory, directory / RUN_FILE)
    what = f"{whose}: `--run {directory}` reads it"
    return (directory.name, "", "foreign", None, None, None, None, "", what)


def _build_row(run: RunRecord, tag_names: str, size: float) -> tuple[Cell, ...]:
    cost = f"{run.baseline['ratio']:.3f}x" if run.baseline else ""
    facts = (run.phase, run.launcher, run.exit_code, len(run.reports), size, cost)
    return (run.id, tag_names, *facts, " ".join(run.command))
