"""test: the image's own checks, or the NCCL tests on any launcher with their gate."""

import dataclasses
import sys
from datetime import datetime, timezone

from gpu_profile import files, process
from gpu_profile.cli.flags import check_nodes, load_settings, refuse_ignored
from gpu_profile.cli.jobs import launcher_of, load_launcher, name_launchers, with_image
from gpu_profile.cli.options.jobs import TestOptions
from gpu_profile.cli.terminal import print_tables, show_commands
from gpu_profile.command import Command
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.doctor.engine import require_running_engine
from gpu_profile.errors import (
    GateError,
    GpuProfileError,
    JobError,
    ReportError,
    SettingsError,
    ToolError,
)
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.kubernetes.ec2_instances import find_instance
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.nccl import suite as nccl_suite
from gpu_profile.nccl.floors import find_floor
from gpu_profile.nccl.gate import draw_plot
from gpu_profile.nccl.measurement import Measurement, make_table, parse_size, size_text
from gpu_profile.nccl.suite import Suite, with_json, writes_json
from gpu_profile.runs import record
from gpu_profile.settings.parse import parse_count
from gpu_profile.settings.places import ROOT
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.jobs.from_flags.job import image_of
from gpu_profile.verbs.jobs.start_run import start_run

_NO_NSYS = NsysPlan(options=())


def test(options: TestOptions) -> None:
    """Run the image's own checks, or the NCCL tests. Raises GateError if one fails."""
    settings = apply_version(load_settings(options))
    if options.suite == "nccl":
        run_suite(settings, options)
    elif options.suite == "image":
        _run_checks(options, settings)
    else:
        raise SettingsError(f"--suite {options.suite!r} is not known", "Use image or nccl")


def _run_checks(options: TestOptions, settings: Settings) -> None:
    if ImageFrom.ENGINE not in load_launcher(settings.launcher).possible_images:
        local = name_launchers(lambda other: ImageFrom.ENGINE in other.possible_images)
        raise SettingsError(
            f"--on {settings.launcher} runs no image checks",
            f"They run in local Docker: --on {local}",
        )
    image = with_image(settings, options.image).image_ref
    junit = (f"--junitxml={options.junit}",) if options.junit else ()
    command = Command(
        argv=(
            *(sys.executable, "-m", "pytest", str(ROOT / "tests" / "image"), "--require=image"),
            *("-p", "no:cacheprovider"),  # another user may own the package
            *(f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"),
            *(f"--image={image}", *junit, *options.words),
        )
    )
    if options.dry_run:
        show_commands([command])
        return
    require_running_engine()
    if process.run_attached(command):
        raise GateError(f"{image} failed its checks", "The failed ones are named above")


def run_suite(settings: Settings, options: TestOptions) -> None:
    """Run each collective and print its numbers. Raises GateError if one fails."""
    suite = _parse_suite(settings, options)
    settings = with_image(settings, options.image)
    launcher = launcher_of(settings.launcher, settings)
    refuse_ignored(options, launcher, image=options.image)
    resources = _make_resources(options, launcher)
    now = datetime.now(timezone.utc)
    name = record.run_id(("nccl",), now, options.name)
    image = image_of(options.image, settings, launcher.images)
    jobs = nccl_suite.make_jobs(suite, name=name, image=image, resources=resources)
    if options.dry_run:
        for job in jobs:
            show_commands(process.plan(launcher.submit(job, _NO_NSYS)))
        return
    measured: list[Measurement] = []
    logs: list[str] = []
    for collective, job in zip(suite.collectives, jobs, strict=True):
        measurement, log = _run_collective(job, collective, launcher, settings)
        print_tables([make_table(measurement)], "text")
        print(draw_plot(measurement))
        measured.append(measurement)
        logs.append(log)
    nccl_suite.judge_measurements(measured, suite, logs)
    print(_format_verdict(suite))


def _parse_suite(settings: Settings, options: TestOptions) -> Suite:
    """Return the options. A floor is used only if named; EFA is checked between several nodes."""
    at, busbw = options.at, options.min_busbw or None
    if options.floor:
        busbw = find_floor(options.floor, parse_size(at)).busbw
    efa = bool(settings.component.get("INSTALL_EFA")) and options.nodes > 1
    suite = nccl_suite.make_suite(options.collective, min_busbw=busbw, at=at, efa=efa)
    instance = settings.of(KubernetesSettings).instance
    nics = find_instance(instance).efa if instance else None
    return dataclasses.replace(suite, efa_nics=nics)


def _make_resources(options: TestOptions, launcher: Launcher) -> Resources:
    """Return the resources: one process for all GPUs of a node, or one process a GPU.

    With several nodes MPI starts one process for each GPU.
    """
    nodes = check_nodes(options.nodes, launcher)
    count_text = options.gpus_per_node or options.gpus
    gpu_count = None if options.dry_run else process.drive(launcher.gpus())
    gpus = gpu_count if count_text == "all" else parse_count("--gpus", count_text)
    if gpu_count is not None and (gpus or 0) > gpu_count:
        raise ToolError(f"{gpus} GPUs asked for, {gpu_count} there", "Use --gpus all")
    if gpus == 0:
        raise ToolError(
            "The NCCL tests need GPUs, and none is here", "Use --on with a launcher that has some"
        )
    tasks = (gpus or 1) if nodes > 1 else 1
    return Resources(nodes=nodes, gpus_per_node=gpus, tasks_per_node=tasks)


def _run_collective(
    job: Job, collective: str, launcher: Launcher, settings: Settings
) -> tuple[Measurement, str]:
    """Run one collective and return its measurement and its log.

    The table counts even if the job failed: nccl-tests exits with 1 for wrong values, which the
    table shows in detail.
    """
    inside = launcher.reports_inside
    has_json = inside and writes_json(str(settings.component.get("NCCL_TESTS_VERSION")))

    def name_job(name: str) -> Job:
        named = dataclasses.replace(job, name=name)
        return with_json(named, collective, f"{inside}/{name}") if has_json else named

    runner, run = start_run(job.name, name_job, launcher, settings, _NO_NSYS)
    directory = runner.directory
    failure: GpuProfileError | None = None
    try:
        runner.finish(run)
    except JobError as error:
        failure = error
    finally:
        nccl_suite.redact_results(directory)
    try:
        measurement = nccl_suite.read_results(directory, collective)
    except ReportError as error:
        raise failure or error from error
    log = files.read_text(directory / record.OUTPUT_FILE)
    if failure and measurement.out_of_bounds == 0:
        raise failure
    return measurement, log


def _format_verdict(suite: Suite) -> str:
    results = ["no wrong value"]
    if suite.min_busbw is not None:
        results.append(f"at least {suite.min_busbw:g} GB/s at {size_text(suite.at)}")
    if suite.efa:
        results.append("over EFA")
    return f"{', '.join(suite.collectives)}: {', '.join(results)}"
