"""reports: list runs and their reports."""

from pathlib import Path

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import ReportsOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.errors import SettingsError
from gpu_profile.runs import owner
from gpu_profile.runs import record as rundir
from gpu_profile.runs.record import RunRecord
from gpu_profile.table import Cell, Column, Table


def reports(options: ReportsOptions) -> None:
    """Print a table of the runs in REPORT_DIR."""
    chosen = load_settings(options)
    names = ("Run", "Phase", "Launcher", "Exit code", "Reports", "MB", "Cost", "Command")
    rows = [
        *map(_own_row, rundir.list_runs(chosen.report_dir)),
        *map(_foreign_row, rundir.foreign_runs(chosen.report_dir)),
    ]
    table = Table("runs", tuple(Column(name) for name in names), tuple(rows))
    if rows or options.format != "text":
        print_tables([table], options.format)
    else:
        print(f"{chosen.report_dir} holds no runs; `invoke profile` makes one")


def _own_row(directory: Path) -> tuple[Cell, ...]:
    """Return the row of a run. A damaged record affects its own row only."""
    try:
        return _build_row(rundir.load_run(directory))
    except SettingsError as error:
        return (directory.name, "damaged", None, None, None, None, "", error.what)


def _foreign_row(directory: Path) -> tuple[Cell, ...]:
    """Return the row of another user's run. Nothing in it is read."""
    what = f"a run of {owner.owner_name(directory)}: `--run {directory}` reads it"
    return (directory.name, "foreign", None, None, None, None, "", what)


def _build_row(run: RunRecord) -> tuple[Cell, ...]:
    size = round(sum(facts.bytes for facts in run.reports) / 1e6, 1)
    cost = f"{run.baseline['ratio']:.3f}x" if run.baseline else ""
    command = " ".join(run.command)
    return (run.id, run.phase, run.launcher, run.exit_code, len(run.reports), size, cost, command)
