"""The flags that several verbs have, as base classes of the verbs' own dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from gpu_profile.cli.verb import Option, VerbOptions, make_flag
from gpu_profile.declared.launchers import LAUNCHERS, LauncherRow, find_flags

W = TypeVar("W", bound="WhereOptions")


@dataclass(frozen=True, kw_only=True)
class SetOptions(VerbOptions):
    group: ClassVar[str] = "Settings"
    set: tuple[str, ...] = make_flag(
        (), "a setting of .env for this call; may be given again", value="KEY=VALUE"
    )
    env_file: str = make_flag("", "file to read settings from, in place of .env", kind="path")


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(SetOptions):
    group: ClassVar[str] = "Settings"
    with_dependencies: bool = make_flag(False, "enable what the enabled components need")


@dataclass(frozen=True, kw_only=True)
class DryRunOptions(VerbOptions):
    dry_run: bool = make_flag(False, "print exactly what would run, and run nothing")


@dataclass(frozen=True, kw_only=True)
class YesOptions(VerbOptions):
    yes: bool = make_flag(False, "do not ask")


@dataclass(frozen=True, kw_only=True)
class FormatOptions(VerbOptions):
    format: str = make_flag("text", "text, csv or json", choices=("text", "csv", "json"))


@dataclass(frozen=True, kw_only=True)
class OutputOptions(VerbOptions):
    output: str = make_flag("", "file to write", kind="path")


@dataclass(frozen=True, kw_only=True)
class JobOptions(VerbOptions):
    job: str = make_flag("", "handle, run id or name of a job")


@dataclass(frozen=True, kw_only=True)
class JobOrContainerOptions(VerbOptions):
    job: str = make_flag("", "handle, run id or name of a job; default: the local container")


@dataclass(frozen=True, kw_only=True)
class ReadOptions(SetOptions):
    group: ClassVar[str] = "Which reports"
    run: str = make_flag("", "run id, name or handle; default: the latest")
    report: tuple[str, ...] = make_flag((), "a report's file or directory; may be given again")


@dataclass(frozen=True, kw_only=True)
class WindowOptions(VerbOptions):
    group: ClassVar[str] = "Which reports"
    window: int = make_flag(0, "one window of several (repeat:N); 0: all in series", kind="count")
    together: bool = make_flag(
        False, "the reports are of one run, though their times or communicators say otherwise"
    )


@dataclass(frozen=True, kw_only=True)
class SchedulerOptions(VerbOptions):
    group: ClassVar[str] = "Which reports"
    scheduler: str = make_flag(
        "", "address of a Dask scheduler that reads the reports", kind="scheduler"
    )


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(VerbOptions):
    """How the findings at the end of a run are shown."""

    group: ClassVar[str] = "The answer at the end"
    no_html: bool = make_flag(False, "write no page")
    format: str = make_flag(
        "text", "text or json, of the answer at the end", choices=("text", "json")
    )


@dataclass(frozen=True, kw_only=True)
class ShapeOptions(VerbOptions):
    """How large a job is, its image and its name."""

    group: ClassVar[str] = "The job's size, image and name"
    nodes: int = make_flag(1, "nodes")
    gpus: str = make_flag("all", "GPUs a node: N, all, or 0 for none", value="N")
    gpus_per_node: str = make_flag("", "the same, in the words of Slurm and Kubernetes", value="N")
    image: str = make_flag("", "image to run, instead of the settings'", kind="address")
    name: str = make_flag("", "name of the run", kind="run-name")


def _make_launcher_option(name: str, rows: tuple[LauncherRow, ...]) -> Option:
    """Return a flag of some launchers. Its help begins with them: `host, ssh, slurm: where …`."""
    flags = [flag for row in rows for flag in row.flags if flag.name == name]
    families = dict.fromkeys(row.family or row.name for row in rows)
    settings = tuple(dict.fromkeys(key for flag in flags for key in flag.settings))
    doc = f"{', '.join(families)}: {flags[0].doc}"
    of = tuple(row.name for row in rows)
    return Option(name, "", doc, settings, of=of, group="Where it runs")


LAUNCHER_OPTIONS = tuple(_make_launcher_option(*item) for item in find_flags().items())


@dataclass(frozen=True, kw_only=True)
class WhereOptions(SettingsOptions):
    """Where a job runs: the launcher, and the flags of all launchers."""

    group: ClassVar[str] = "Where it runs"
    on: str = make_flag(
        "", ", ".join(LAUNCHERS), "LAUNCHER", choices=tuple(LAUNCHERS), value="LAUNCHER"
    )
    launcher_flags: Mapping[str, str] = field(default_factory=dict)
    """The flags of launchers, such as `{"host": "ubuntu@10.0.0.1"}`. Their settings have them."""

    @classmethod
    def list_options(cls) -> tuple[Option, ...]:
        return (*super().list_options(), *LAUNCHER_OPTIONS)

    @classmethod
    def from_flags(cls: type[W], flags: Mapping[str, Any]) -> W:
        names = {option.field for option in LAUNCHER_OPTIONS}
        verb_flags = {name: value for name, value in flags.items() if name not in names}
        return cls(
            **verb_flags, launcher_flags={name: flags[name] for name in flags if name in names}
        )

    def value_of(self, option: Option) -> Any:  # noqa: ANN401 - a flag's own type
        if option.of:
            return self.launcher_flags.get(option.field, option.default)
        return super().value_of(option)


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(VerbOptions):
    """How the command after `--` is started."""

    ddp: bool = make_flag(False, "one process a GPU, with torchrun's variables")
    processes: int = make_flag(
        0, "processes a node; default: one a GPU, two without GPUs", kind="count"
    )
    env: tuple[str, ...] = make_flag(
        (),
        "variable for the job; may be given again",
        kind="variable",
        value="NAME[=VALUE]",
    )
    mount: tuple[str, ...] = make_flag(
        (), ". to work here, or SOURCE:TARGET[:ro]; may be given again", kind="mount", value="DIR"
    )
