"""Make a Job from the flags of profile."""

import dataclasses
from datetime import datetime, timezone

from gpu_profile import process
from gpu_profile.cli.flags import (
    at_least,
    check_nodes,
    refuse_ignored,
)
from gpu_profile.cli.options.jobs import DrillOptions, ProfileOptions
from gpu_profile.cli.paths import records_file
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job import (
    Job,
    Resources,
)
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.manifest.batch_script import BatchScript
from gpu_profile.manifest.compose import ComposeService
from gpu_profile.manifest.manifest_launcher import ManifestLauncher
from gpu_profile.progress import Progress
from gpu_profile.registry.digests import apply_digest
from gpu_profile.runs import record
from gpu_profile.settings.parse import parse_count
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.from_flags.mounts import find_workdir, parse_mount
from gpu_profile.verbs.jobs.from_flags.profile_spec import make_profile_spec
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
        profile=make_profile_spec(options, settings, launcher),
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
    return dataclasses.replace(job, profile=make_profile_spec(options, settings, launcher))


def job_from_script(
    options: ProfileOptions, settings: Settings, launcher: Launcher, script: BatchScript
) -> Job:
    """Return the job of a user's own batch script, with what the flags say of nsys."""
    spec = make_profile_spec(options, settings, launcher)
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
        profile=make_profile_spec(options, settings, launcher),
        resources=Resources(gpus_per_node=gpus, tasks_per_node=service.count_ranks()),
    )


def _check_ranks(job: Job) -> None:
    """Raise SettingsError for a rank in --ranks that the job does not have."""
    ranks = job.profile.ranks if job.profile else None
    world = job.resources.nodes * (job.resources.tasks_per_node or 1)
    if job.ddp and ranks and max(ranks) >= world:
        what = f"--ranks names rank {max(ranks)}, and the job's last rank is {world - 1}"
        raise SettingsError(what, "Choose among them, or leave it out")


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
