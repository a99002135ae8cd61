"""Make a Job from the flags of profile, and the nsys options that its nsys has."""

import contextlib
import dataclasses
from datetime import datetime, timezone
from pathlib import Path

from gpu_profile import files, process
from gpu_profile.cli.flags import (
    at_least,
    check_nodes,
    refuse_ignored,
    refuse_unknown,
    split_words,
)
from gpu_profile.cli.options.jobs import DrillOptions, ProfileOptions
from gpu_profile.cli.paths import records_file
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job import (
    PRESETS,
    RECORD_AT,
    TOOLS,
    Job,
    NsysPlan,
    Preset,
    ProfileSpec,
    RecordAt,
    Resources,
    parse_ranks,
    parse_steps,
)
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.manifest.batch_script import BatchScript
from gpu_profile.manifest.compose import ComposeService
from gpu_profile.manifest.manifest_launcher import ManifestLauncher
from gpu_profile.nsys import options as nsys
from gpu_profile.nsys.permissions import list_concerns, remove_lacking
from gpu_profile.nsys.recorder import Recorder
from gpu_profile.progress import Progress
from gpu_profile.registry.digests import apply_digest
from gpu_profile.runs import record
from gpu_profile.runs.reports.validate import KINDS
from gpu_profile.settings.parse import parse_count
from gpu_profile.settings.places import cache_folder
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.mounts import find_workdir, parse_mount
from gpu_profile.verbs.jobs.own_file.manifest import make_manifest_job

SAMPLE = ("python3", "/train.py")


def job_from(options: ProfileOptions, settings: Settings, launcher: Launcher) -> Job:
    """Return the job of the flags. Asks the launcher for the number of GPUs if no flag says it."""
    refuse_ignored(options, launcher, image=options.image, mount=options.mount)
    command = options.words or SAMPLE
    resources = _make_resources(options, launcher)
    now = datetime.now(timezone.utc)
    job = Job(
        name=record.run_id(command, now, options.name),
        command=tuple(command),
        image=image_of(options.image, settings, launcher.images),
        profile=_profile_spec(options, settings, launcher),
        resources=resources,
        ddp=bool(options.ddp) or (resources.tasks_per_node or 1) > 1,
        env=parse_environment(options),
        mounts=tuple(parse_mount(text) for text in options.mount),
        workdir=find_workdir(options.mount, launcher),
    )
    if not options.dry_run:  # --dry-run does not ask for the number of GPUs
        _check_ranks(job)
    return job


def job_from_manifest(
    options: ProfileOptions, settings: Settings, launcher: ManifestLauncher
) -> Job:
    """Return the job of the object in --manifest, with what the flags say of nsys."""
    target = launcher.get_manifest().target
    name = record.run_id((target.title,), datetime.now(timezone.utc), options.name or target.name)
    job = make_manifest_job(name, launcher)
    return dataclasses.replace(job, profile=_profile_spec(options, settings, launcher))


def job_from_script(
    options: ProfileOptions, settings: Settings, launcher: Launcher, script: BatchScript
) -> Job:
    """Return the job of a user's own batch script, with what the flags say of nsys."""
    spec = _profile_spec(options, settings, launcher)
    command = (script.name, *script.words)
    gpus = script.count_gpus()
    if gpus is None or (options.gpus_per_node or options.gpus) != "all":
        gpus = _count_gpus(options, launcher)
    name = options.name or script.name.rpartition(".")[0] or script.name
    return Job(
        name=record.run_id(command, datetime.now(timezone.utc), name),
        command=command,
        profile=spec,
        resources=Resources(nodes=script.count_nodes(), gpus_per_node=gpus),
        least_ranks=1 + max(spec.ranks or {0}),
    )


def job_from_service(
    options: ProfileOptions, settings: Settings, launcher: Launcher, service: ComposeService
) -> Job:
    """Return the job of a service of a compose file, with what the flags say of nsys."""
    gpus = service.count_gpus()
    if gpus is None:
        gpus = _count_gpus(options, launcher)
    words, name = service.words or ("",), options.name or service.name
    return Job(
        name=record.run_id(words, datetime.now(timezone.utc), name),
        command=words,
        image=ImageRef.parse(service.address),
        profile=_profile_spec(options, settings, launcher),
        resources=Resources(gpus_per_node=gpus, tasks_per_node=service.count_ranks()),
    )


def _check_ranks(job: Job) -> None:
    """Raise SettingsError for a rank in --ranks that the job does not have."""
    ranks = job.profile.ranks if job.profile else None
    world = job.resources.nodes * (job.resources.tasks_per_node or 1)
    if job.ddp and ranks and max(ranks) >= world:
        what = f"--ranks names rank {max(ranks)}, and the job's last rank is {world - 1}"
        raise SettingsError(what, "Choose among them, or leave it out")


def _profile_spec(options: ProfileOptions, settings: Settings, launcher: Launcher) -> ProfileSpec:
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
        whole=options.whole,
        record=_parse_record(options, launcher),
        nsys_args=split_words("--nsys-args", options.nsys_args),
        tool=next(tool for tool in TOOLS if tool == options.with_),
    )


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


def _make_resources(options: ProfileOptions, launcher: Launcher) -> Resources:
    for flag, number in (
        ("--processes", options.processes),
        ("--delay", options.delay),
        ("--duration", options.duration),
    ):
        at_least(flag, number, 0)
    nodes = check_nodes(options.nodes, launcher)
    gpus = _count_gpus(options, launcher)
    # On CPUs two processes of --ddp have each other to communicate with over gloo.
    without_gpus = 2 if nodes == 1 else 1
    spread = options.ddp or launcher.one_task_per_gpu
    processes = options.processes or (gpus or without_gpus if spread else 1)
    return Resources(nodes=nodes, gpus_per_node=gpus, tasks_per_node=processes)


def _count_gpus(options: ProfileOptions, launcher: Launcher) -> int:
    count_text = options.gpus_per_node or options.gpus
    gpu_count = None if options.dry_run or count_text == "0" else process.drive(launcher.gpus())
    if count_text != "all":
        count = parse_count("--gpus", count_text)
        if gpu_count is not None and count > gpu_count:
            raise ToolError(
                f"{count} GPUs asked for, {gpu_count} there", "Use --gpus all, or 0 for a CPU run"
            )
        return count
    if gpu_count == 0:
        Progress().say("no GPU here: running on CPU, with gloo between processes")
    return gpu_count or 0


def parse_environment(options: ProfileOptions | DrillOptions) -> dict[str, str]:
    """Return the variables of `--env NAME=value`, or of `--env NAME` with its value here."""
    environment = {}
    for text in options.env:
        name, equals, value = text.partition("=")
        if not equals and name not in options.environ:
            raise SettingsError(f"--env {name}: not set here", "Use --env NAME=value")
        environment[name] = value if equals else options.environ[name]
    return environment


def image_of(image_text: str, settings: Settings, images: ImageFrom) -> ImageRef | None:
    """Return the image that the job runs in; None if the launcher's jobs have none of ours."""
    if images in {ImageFrom.NOWHERE, ImageFrom.SETTINGS}:
        return None
    if image_text:
        return ImageRef.parse(image_text)
    local = images is ImageFrom.ENGINE
    return settings.image_ref if local else apply_digest(records_file(), settings.image_ref)


def nsys_plan(
    job: Job, launcher: Launcher, settings: Settings, *, strict: bool = False
) -> tuple[NsysPlan, tuple[str, ...]]:
    """Return the nsys options that this job's nsys has, and the events that they must record."""
    if job.profile is None:
        return NsysPlan(options=()), ()
    spec = job.profile
    if spec.tool == "torch":
        return plan_for(job, spec, "")
    if launcher.exports_in_job and not spec.export and spec.record == "start":
        # fetch copies this export; the job's nsys makes it. Windows are exported at their fetch.
        spec = dataclasses.replace(spec, export="sqlite")
    if list_concerns(spec):
        lacking = process.drive(launcher.lacking())
        spec, warnings = remove_lacking(spec, lacking, strict=strict)
        for line in warnings:
            Progress().say(line)
    return plan_for(job, spec, _help_text(job, launcher))


def _help_text(job: Job, launcher: Launcher) -> str:
    """Return the help text of the job's nsys, cached if the launcher has an identity for it."""
    identity = (job.carrier.digest if job.carrier else "") or process.drive(launcher.identity(job))
    if not identity:
        return process.drive(launcher.probe(job))
    cache = cache_folder() / (f"nsys-{identity.replace(':', '-')}.txt")
    with contextlib.suppress(OSError):
        return cache.read_text(encoding="utf-8")
    help_text = process.drive(launcher.probe(job))
    with contextlib.suppress(OSError, SettingsError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(cache, help_text)
    return help_text


def plan_for(job: Job, spec: ProfileSpec, help_text: str) -> tuple[NsysPlan, tuple[str, ...]]:
    """Return the nsys options for a help text, and the kinds of events they must record."""
    gpus = bool(job.resources.gpus_per_node)
    if spec.tool == "torch":
        return NsysPlan(options=()), ("cuda",) if gpus else ()
    if spec.steps:
        spec = nsys.step_window(spec, gpus=gpus)
    elif spec.record == "endpoint":
        spec = nsys.endpoint_windows(spec)
    elif spec.record == "start" and job.command[: len(SAMPLE)] == SAMPLE:
        spec = nsys.sample_window(spec, gpus=gpus)
    options = nsys.profile_options(spec, help_text, gpus=gpus)
    first = nsys.first_options(spec, help_text, gpus=gpus, efa=bool(job.resources.efa_per_node))
    plan = NsysPlan(
        options=options, first=first, privileged=nsys.needs_privileges((*options, *first))
    )
    kinds = nsys.expected_kinds(spec, options, gpus=gpus) & KINDS
    return plan, tuple(sorted(kinds))
