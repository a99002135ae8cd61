"""Make a ProfileSpec, what is recorded and when, from the flags of profile."""

from pathlib import Path

from gpu_profile.cli.flags import refuse_unknown, split_words
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.errors import SettingsError
from gpu_profile.job import (
    PRESETS,
    RECORD_AT,
    TOOLS,
    Preset,
    ProfileSpec,
    RecordAt,
    parse_ranks,
    parse_steps,
)
from gpu_profile.launcher import Launcher
from gpu_profile.nsys.recorder import Recorder
from gpu_profile.settings.settings import Settings


def make_profile_spec(
    options: ProfileOptions, settings: Settings, launcher: Launcher
) -> ProfileSpec:
    """Return what the flags say of the recording. Raises SettingsError for two windows."""
    functions = options.python_functions_trace
    return ProfileSpec(
        preset=_parse_preset(options.preset),
        trace=options.trace,
        sample=options.sample,
        capture_range=options.capture_range,
        capture_range_end=options.capture_range_end,
        cuda_graph_trace=options.cuda_graph_trace,
        nvtx_domain_include=options.nvtx_domain_include,
        nvtx_domain_exclude=options.nvtx_domain_exclude,
        stats=options.stats,
        export=options.export,
        delay_s=options.delay or None,
        duration_s=options.duration or None,
        python_functions_trace=Path(functions) if functions else None,
        gpu_metrics=options.gpu_metrics or None,
        nic_metrics=options.nic_metrics or None,
        ranks=parse_ranks(options.ranks),
        annotate=settings.annotate,
        steps=_parse_window(options),
        whole=options.whole or _is_server(options),
        record=_parse_record(options, launcher),
        nsys_args=split_words("--nsys-args", options.nsys_args),
        tool=next(tool for tool in TOOLS if tool == options.with_),
    )


def _is_server(options: ProfileOptions) -> bool:
    """Whether an engine is recorded from its start: its load comes after its first forwards."""
    return options.preset == "serve" and options.record == "start" and not options.steps


def _parse_window(options: ProfileOptions) -> tuple[int, int] | None:
    """Return the steps to record. Raises SettingsError beside another window."""
    steps = parse_steps(options.steps)
    if steps and (options.capture_range or options.delay or options.duration):
        others = "--capture-range, --delay and --duration"
        raise SettingsError(f"--steps is a window, as are {others}", "Give one of them")
    if steps and options.whole:
        raise SettingsError("--whole records all, and --steps a part", "Give one of them")
    return steps


def _parse_record(options: ProfileOptions, launcher: Launcher) -> RecordAt:
    """Return when recording begins.

    Raises SettingsError beside another window, and where `record` would not reach the job.
    """
    others = (options.steps, options.capture_range, options.delay, options.duration, options.whole)
    if options.record != "start" and any(others):
        what = f"--record {options.record} records windows that `invoke record` asks for"
        flags = "--steps, --capture-range, --delay, --duration and --whole"
        raise SettingsError(what, f"Leave out {flags}")
    if options.record == "manual" and not isinstance(launcher, Recorder):
        what = f"jobs of --on {launcher.name} cannot be recorded while they run"
        raise SettingsError(what, "Leave out --record")
    if options.record == "endpoint" and launcher.exports_in_job:
        what = "windows of --record endpoint are not fetched from pods that run"
        raise SettingsError(what, "Use --record manual, which needs no endpoint")
    chosen = next((at for at in RECORD_AT if at == options.record), None)
    return chosen or refuse_unknown("--record", options.record, RECORD_AT)


def _parse_preset(text: str) -> Preset:
    preset = next((preset for preset in PRESETS if preset == text), None)
    return preset or refuse_unknown("--preset", text, PRESETS)
