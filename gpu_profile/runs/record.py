"""The run directory: one folder a run, with run.json for what ran, where, and its results."""

import dataclasses
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gpu_profile import files
from gpu_profile.declared.launchers import is_launcher
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.job import Handle
from gpu_profile.runs import job_note, owner, record_fields
from gpu_profile.runs.step_times import STEP

RUN_FILE = "run.json"
OUTPUT_FILE = "output.log"
_SCHEMA = 1
_LATEST = "latest"  # as a run's name: the last run
_NAME_LENGTH = 30  # leaves room in a DNS label (63) for the time and for suffixes of pods
_RECORD_BYTES = 1 << 22  # a larger run.json is refused


@dataclass(frozen=True, kw_only=True)
class ReportSummary:
    """A validated report: its file, rank, host and number of events of each kind."""

    file: str
    rank: int
    host: str
    bytes: int
    events: Mapping[str, int]
    window: int = 0
    """The window's number, from 1, with --capture-range-end=repeat:N; otherwise 0."""
    recorded_steps: tuple[int, ...] = ()
    """20 and 40 where steps 20 to 39 of a program with marks are recorded."""
    first_step: int = 0
    step_ms: tuple[float, ...] = ()
    """Milliseconds of steps around the recording's end from `first_step` on, recorded or not."""
    step_unit: str = STEP
    """"forward" where steps are forwards of a program without an optimizer."""
    control: Mapping[str, float] = field(default_factory=dict)
    """Steps that were not recorded, the fields of step_times.Control. Empty without any."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The contents of run.json. Times are in UTC, ISO 8601. `seconds` is by phase."""

    id: str
    launcher: str
    command: tuple[str, ...]
    nsys: tuple[str, ...] = ()
    handle: str = ""
    phase: str = "submitting"
    image: str = ""
    started_at: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    spec: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    """The ranks that should leave a report. `kinds` are the events that each report must hold."""
    kinds: tuple[str, ...] = ()
    exit_code: int | None = None
    error: str = ""
    baseline: Mapping[str, float] = field(default_factory=dict)
    reports: tuple[ReportSummary, ...] = ()
    cleaned: bool = False
    """The engine has removed the job: only this record and its directory remain."""

    def to_json(self) -> str:
        return json.dumps({"schema": _SCHEMA, **dataclasses.asdict(self)}, indent=2) + "\n"


def run_id(command: tuple[str, ...], now: datetime, name: str = "") -> str:
    """Return a name for the run that is also a DNS label: `train-20261121-031500`."""
    if name == _LATEST:
        raise SettingsError(
            f"--name {name} is taken: --run {name} means the last run", "Choose another name"
        )
    word = name or next((Path(w).stem for w in command if w.endswith(".py")), Path(command[0]).name)
    return f"{shorten_name(spell_name(word))}-{now:%Y%m%d-%H%M%S}"


def spell_name(text: str) -> str:
    """Return a name in the letters of a run id: `a-b` of `A_b`, `run-7` of `7`."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return slug if slug[:1].isalpha() else f"run-{slug}".strip("-")


def shorten_name(name: str) -> str:
    return name[:_NAME_LENGTH].strip("-")


def _parse_summary(facts: Mapping[str, Any]) -> ReportSummary:
    lists = {name: tuple(facts.get(name, ())) for name in ("recorded_steps", "step_ms")}
    return ReportSummary(**{**facts, **lists})


def check_report_dir(report_dir: Path) -> None:
    """Raise SettingsError where create_run would, before anything is made for a run."""
    if not report_dir.exists():
        raise _make_missing_error(report_dir)
    if not os.access(report_dir, os.W_OK | os.X_OK) or not report_dir.is_dir():
        raise SettingsError(f"REPORT_DIR {report_dir} cannot be written", "Set another")


def _make_missing_error(report_dir: Path) -> SettingsError:
    return SettingsError(f"REPORT_DIR {report_dir} does not exist", "Create it, or set another")


def create_run(report_dir: Path, run_name: str) -> Path:
    """Make the run's directory with mode 0700. A second run of the same second gets `-2`."""
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        path = report_dir / f"{run_name}{suffix}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except FileNotFoundError as error:
            raise _make_missing_error(report_dir) from error
        except OSError as error:
            raise SettingsError(
                f"REPORT_DIR {report_dir} cannot be written: {error.strerror}", "Set another"
            ) from error
        return path
    raise SettingsError(f"{report_dir} holds 99 runs named {run_name}", "Name the run by --name")


def make_private(directory: Path) -> None:
    """Make a directory with mode 0700, or accept one of this user. Raises SettingsError."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        what = f"{directory} cannot be made: {error.strerror}"
        raise SettingsError(what, "Set another REPORT_DIR") from error
    if directory.is_symlink() or not owner.is_writable(directory):
        what = f"{directory} belongs to {owner.owner_name(directory)}"
        raise SettingsError(what, "Set another REPORT_DIR, or another CONTAINER")


def save_run(run: RunRecord, directory: Path) -> None:
    """Replace run.json atomically: a reader never sees half a file."""
    if not directory.is_dir():
        hint = "Run it again"
        if run.handle:
            hint = f"`invoke fetch --job {run.handle}` may still bring its reports"
        raise ReportError(f"{directory} is gone, removed while its run went on", hint)
    files.write_atomically(directory / RUN_FILE, run.to_json())


def load_run(directory: Path) -> RunRecord:
    """Return the record with each field checked.

    Raises SettingsError if it is missing or damaged.
    """
    path = directory / RUN_FILE
    try:
        data: dict[str, Any] = json.loads(files.read_text(path, _RECORD_BYTES))
        if data.pop("schema") != _SCHEMA or not is_launcher(data["launcher"]):
            raise ValueError("another version's")
        reports = tuple(map(_parse_summary, data.pop("reports")))
        data |= {key: tuple(data[key]) for key in ("command", "nsys", "ranks", "kinds")}
        run = RunRecord(**data, reports=reports)
        record_fields.check(run)
        return _with_trusted_handle(run, directory)
    except FileNotFoundError as error:
        raise SettingsError(
            f"{directory} holds no run", "`invoke reports` lists the runs"
        ) from error
    except ReportError as error:
        raise SettingsError(error.what, "gpu-profile did not write it") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SettingsError(f"{path} is not a run record: {error}") from error


def _with_trusted_handle(run: RunRecord, directory: Path) -> RunRecord:
    """Return the record with the handle of the job that was started, see runs/job_note.py."""
    handle = job_note.trusted_handle(directory, run.handle)
    if handle == run.handle:
        return run
    launcher = Handle.parse(handle).launcher if handle else run.launcher
    return dataclasses.replace(run, handle=handle, launcher=launcher)


def list_runs(report_dir: Path) -> tuple[Path, ...]:
    """Return the directories of this user's runs, oldest first."""
    return list_all_runs(report_dir)[0]


def list_all_runs(report_dir: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the directories of this user's runs, oldest first, and of other users', by name.

    Those of others are listed but not trusted.
    """
    directories = tuple(_list_directories(report_dir))
    of_user = {path for path in directories if owner.is_own(path, path / RUN_FILE)}
    by_age = sorted(of_user, key=lambda path: ((path / RUN_FILE).lstat().st_ctime_ns, path))
    return tuple(by_age), tuple(path for path in directories if path not in of_user)


def _list_directories(report_dir: Path) -> Iterator[Path]:
    try:
        children = sorted(report_dir.iterdir())
    except OSError as error:
        raise SettingsError(
            f"REPORT_DIR {report_dir} cannot be listed: {error.strerror}", "Set another"
        ) from error
    yield from (path for path in children if _has_record(path))


def _has_record(path: Path) -> bool:
    """Return whether run.json exists, as a FIFO or link too: load_run reports those."""
    try:
        mode = (path / RUN_FILE).lstat().st_mode
    except OSError:
        return False
    return not stat.S_ISDIR(mode)


def find_run(report_dir: Path, name: str = "") -> Path:
    """Return the directory of a run id, a handle, a run's name or tag, or the latest run.

    A name, as `profile --name` takes it, means its latest run. Only this user's runs are searched.
    A note is printed if others can write to the directory.
    """
    directory = _find(report_dir, name)
    owner.warn_if_shared(directory, directory / RUN_FILE)
    return directory


def _find(report_dir: Path, name: str) -> Path:
    runs, foreign = list_all_runs(report_dir)
    if name in ("", _LATEST):
        if not runs:
            raise SettingsError(f"{report_dir} holds no runs", "`invoke profile` makes one")
        return runs[-1]
    if path := find_by_name(runs, name) or find_tagged(runs, name):
        return path
    for path in foreign:
        if _match_name(name).fullmatch(path.name):
            what = f"{path} is {owner.describe_foreign(path, path / RUN_FILE)}, not yours"
            raise SettingsError(what, f"`stats --run {path}` only reads it")
    raise SettingsError(f"no run {name!r} in {report_dir}", "`invoke reports` lists the runs")


def find_by_name(runs: Sequence[Path], name: str) -> Path | None:
    """Return the latest of these runs that has this id, name or handle."""
    pattern = _match_name(name)
    for path in reversed(runs):
        if pattern.fullmatch(path.name) or ("://" in name and _read_handle(path) == name):
            return path
    return None


def find_tagged(runs: Sequence[Path], tag: str) -> Path | None:
    """Return the latest of these runs that has this tag (verbs/jobs/tag_run.py)."""
    return next((path for path in reversed(runs) if tag in job_note.list_tags(path)), None)


def _match_name(name: str) -> re.Pattern[str]:
    """Return the pattern of the run ids that a name, a run id or a part of one stands for."""
    spelled = spell_name(name)
    words = {name} if "://" in name else {name, spelled, shorten_name(spelled)}
    either = "|".join(map(re.escape, sorted(words)))
    return re.compile(rf"({either})(-\d{{8}}-\d{{6}}(-\d+)?)?")


def _read_handle(directory: Path) -> str:
    """Return the run's handle; empty if its record cannot be read."""
    try:
        return load_run(directory).handle
    except SettingsError:
        return ""
