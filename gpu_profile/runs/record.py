"""The run directory: one folder a run, whose run.json says what ran, where, and what came of it."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.job import LAUNCHER_NAMES, LauncherName

RUN_FILE = "run.json"
OUTPUT_FILE = "output.log"
_SCHEMA = 1
_NAME_LENGTH = 30


@dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """A validated report: its file, whose it is, and its events by kind."""

    file: str
    rank: int
    host: str
    bytes: int
    events: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What run.json holds. Times are UTC, ISO 8601; `seconds` is by phase."""

    id: str
    launcher: LauncherName
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
    """The ranks that were to leave a report, and `kinds` the events that each must hold."""
    kinds: tuple[str, ...] = ()
    exit_code: int | None = None
    error: str = ""
    baseline: Mapping[str, float] = field(default_factory=dict)
    reports: tuple[ReportFacts, ...] = ()
    cleaned: bool = False
    """Its engine has nothing left of it: this record and what lies beside it are all there is."""

    def to_json(self) -> str:
        return json.dumps({"schema": _SCHEMA, **dataclasses.asdict(self)}, indent=2) + "\n"


def run_id(command: tuple[str, ...], now: datetime, name: str = "") -> str:
    """A name for the run that is also a DNS label: `train-20261121-031500`."""
    word = name or next((Path(w).stem for w in command if w.endswith(".py")), Path(command[0]).name)
    slug = re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    return f"{slug if slug[:1].isalpha() else f'run-{slug}'.strip('-')}-{now:%Y%m%d-%H%M%S}"


def create(report_dir: Path, wanted: str) -> Path:
    """Make the run's directory, numbered where another run of the same second was first."""
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        path = report_dir / f"{wanted}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except FileNotFoundError as error:
            raise SettingsError(
                f"REPORT_DIR {report_dir} does not exist", "Create it, or set another"
            ) from error
        except OSError as error:
            raise SettingsError(
                f"REPORT_DIR {report_dir} cannot be written: {error.strerror}", "Set another"
            ) from error
        return path
    raise SettingsError(f"{report_dir} holds 99 runs named {wanted}", "Name the run by --name")


def save(run: Run, directory: Path) -> None:
    """Replace run.json whole: a reader never sees half of one."""
    draft = directory / f".{RUN_FILE}"
    try:
        draft.write_text(run.to_json(), encoding="utf-8")
    except FileNotFoundError as error:
        raise ReportError(
            f"{directory} is gone, removed while its run went on",
            f"`invoke fetch --job {run.handle}` may still bring its reports"
            if run.handle
            else "Run it again",
        ) from error
    draft.replace(directory / RUN_FILE)


def load(directory: Path) -> Run:
    path = directory / RUN_FILE
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("schema") != _SCHEMA or data["launcher"] not in LAUNCHER_NAMES:
            raise ValueError("another version's")
        reports = tuple(ReportFacts(**facts) for facts in data.pop("reports"))
        data |= {key: tuple(data[key]) for key in ("command", "nsys", "ranks", "kinds")}
        return Run(**data, reports=reports)
    except FileNotFoundError as error:
        raise SettingsError(
            f"{directory} holds no run", "`invoke reports` lists the runs"
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"{path} is not a run record: {error}") from error


def runs(report_dir: Path) -> tuple[Path, ...]:
    """The directories of all runs, oldest first."""
    found = [path.parent for path in report_dir.glob(f"*/{RUN_FILE}")]
    return tuple(sorted(found, key=lambda path: (path / RUN_FILE).stat().st_ctime_ns))


def find(report_dir: Path, wanted: str = "") -> Path:
    """The directory of a run id, a handle, a run's name (its latest), or of the latest run."""
    known = runs(report_dir)
    if wanted in ("", "latest"):
        if not known:
            raise SettingsError(f"{report_dir} holds no runs", "`invoke profile` makes one")
        return known[-1]
    named = re.compile(rf"{re.escape(wanted)}(-\d{{8}}-\d{{6}}(-\d+)?)?")
    for path in reversed(known):
        if named.fullmatch(path.name) or ("://" in wanted and load(path).handle == wanted):
            return path
    raise SettingsError(f"no run {wanted!r} in {report_dir}", "`invoke reports` lists the runs")
