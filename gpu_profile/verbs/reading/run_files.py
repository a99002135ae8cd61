"""Files of a run's directory: where a verb writes, and the cost that run.json holds."""

from dataclasses import replace
from pathlib import Path

from gpu_profile.analysis.store.open_report import is_url
from gpu_profile.cli.paths import output_file
from gpu_profile.errors import SettingsError
from gpu_profile.files import check_no_input, check_target
from gpu_profile.runs import baseline, owner, record
from gpu_profile.runs.report_files import list_copies
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.reading.open_run import ReportChoice, find_directory, find_report_files


def resolve_output(choice: ReportChoice, path_text: str, settings: Settings, name: str) -> Path:
    """Return --output, or a file in the run's directory (here, for reports of no run).

    Raises SettingsError for a device or a FIFO, for a report that is read, and for another user's
    run without --output.
    """
    path = _resolve_place(choice, path_text, settings, name)
    refuse_report(path, choice, settings)
    return path


def refuse_report(path: Path, choice: ReportChoice, settings: Settings) -> None:
    """Raise SettingsError if `path` is a chosen report, or the recording or an export of one."""
    local = tuple(place for place in choice.report if not is_url(place))
    if choice.report and not local:
        return
    reports = find_report_files(replace(choice, report=local), settings)
    check_no_input(path, [copy for report in reports for copy in list_copies(report)])


def _resolve_place(choice: ReportChoice, path_text: str, settings: Settings, name: str) -> Path:
    if path := output_file(path_text, name):
        check_target(path)
        return path
    if choice.report:
        return Path(name)
    place = find_directory(choice.run, settings)
    if not owner.is_own(place, place / record.RUN_FILE):
        what = f"{place} is a run of {owner.owner_name(place)}, where nothing is written"
        raise SettingsError(what, "Name a place of yours by --output")
    return place / name


def describe_tracing_cost(choice: ReportChoice, settings: Settings) -> str:
    """Return a line on what tracing cost the run, if --baseline measured it."""
    if choice.report:
        return ""
    return baseline.describe_cost_of(find_directory(choice.run, settings))
