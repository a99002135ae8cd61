"""test --suite nccl: the NCCL tests on any launcher, their curve, and their gate."""

import dataclasses
from datetime import datetime, timezone

from gpu_profile import files, process
from gpu_profile.cli.flags import nodes_of, refuse_ignored, whole_number
from gpu_profile.cli.jobs import launcher_of
from gpu_profile.cli.table import Options
from gpu_profile.cli.terminal import show, show_commands
from gpu_profile.engine import container
from gpu_profile.errors import GpuProfileError, JobError, ReportError, ToolError
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.kubernetes.ec2_instances import instance
from gpu_profile.launcher import Launcher
from gpu_profile.nccl import suite as nccl_suite
from gpu_profile.nccl.floors import floor
from gpu_profile.nccl.gate import plot
from gpu_profile.nccl.measurement import Measurement, parse_size, size_text, table
from gpu_profile.nccl.suite import Suite, with_json, writes_json
from gpu_profile.progress import Progress
from gpu_profile.runs import record as rundir
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.job_from_flags import image_of, with_image

_NO_NSYS = NsysPlan(options=())


def run_suite(chosen: Settings, options: Options) -> None:
    """Run each collective, show its numbers, then judge them all: GateError where one fails."""
    asked = _asked(chosen, options)
    chosen = with_image(chosen, options)
    launcher = launcher_of(chosen.launcher, chosen)
    refuse_ignored(options, launcher)
    resources = _resources(options, launcher)
    now = datetime.now(timezone.utc)
    name = rundir.run_id(("nccl",), now, str(options["name"]))
    image = image_of(options, chosen, launcher.images)
    jobs = nccl_suite.jobs(asked, name=name, image=image, resources=resources)
    if options["dry_run"]:
        for job in jobs:
            show_commands(process.plan(launcher.submit(job, _NO_NSYS)))
        return
    measured: list[Measurement] = []
    logs: list[str] = []
    for collective, job in zip(asked.collectives, jobs, strict=True):
        found, log = _run(job, collective, launcher, chosen)
        show([table(found)], "text")
        print(plot(found))
        measured.append(found)
        logs.append(log)
    nccl_suite.judge(measured, asked, logs)
    print(_verdict(asked))


def _asked(chosen: Settings, options: Options) -> Suite:
    """The flags. A floor is used only when named; EFA must be proven between nodes that have it."""
    at, busbw = str(options["at"]), options["min_busbw"] or None
    if options["floor"]:
        busbw = floor(str(options["floor"]), parse_size(at)).busbw
    efa = bool(chosen.component.get("INSTALL_EFA")) and options["nodes"] > 1
    asked = nccl_suite.suite(str(options["collective"]), min_busbw=busbw, at=at, efa=efa)
    nics = instance(chosen.kube_instance).efa if chosen.kube_instance else None
    return dataclasses.replace(asked, efa_nics=nics)


def _resources(options: Options, launcher: Launcher) -> Resources:
    """All GPUs of a node by one process; over several nodes one process a GPU, started by MPI."""
    nodes = nodes_of(options, launcher)
    wanted = str(options["gpus_per_node"] or options["gpus"])
    there = None if options["dry_run"] else process.drive(launcher.gpus())
    gpus = there if wanted == "all" else whole_number("--gpus", wanted)
    if there is not None and (gpus or 0) > there:
        raise ToolError(f"{gpus} GPUs asked for, {there} there", "Use --gpus all")
    if gpus == 0:
        raise ToolError(
            "The NCCL tests need GPUs, and none is here", "Use --on with a launcher that has some"
        )
    tasks = (gpus or 1) if nodes > 1 else 1
    return Resources(nodes=nodes, gpus_per_node=gpus, tasks_per_node=tasks)


def _run(
    job: Job, collective: str, launcher: Launcher, chosen: Settings
) -> tuple[Measurement, str]:
    """One collective to its end. What it printed counts even where its exit code says failed:
    nccl-tests' own code says less than its table."""
    directory = rundir.create(chosen.report_dir, job.name)
    if launcher.name == "docker" and writes_json(str(chosen.component.get("NCCL_TESTS_VERSION"))):
        job = with_json(job, collective, f"{container.REPORTS_INSIDE}/{directory.name}")
    runner = Runner(launcher=launcher, directory=directory, progress=Progress())
    failure: GpuProfileError | None = None
    try:
        run = runner.start(dataclasses.replace(job, name=directory.name), _NO_NSYS, ())
        runner.finish(run)
    except JobError as error:
        failure = error
    finally:
        nccl_suite.redact_results(directory)
    try:
        found = nccl_suite.read_results(directory, collective)
    except ReportError as error:
        raise failure or error from error
    log = files.read_text(directory / rundir.OUTPUT_FILE)
    if failure and found.out_of_bounds == 0:
        raise failure
    return found, log


def _verdict(asked: Suite) -> str:
    held = ["no wrong value"]
    if asked.min_busbw is not None:
        held.append(f"at least {asked.min_busbw:g} GB/s at {size_text(asked.at)}")
    if asked.efa:
        held.append("over EFA")
    return f"{', '.join(asked.collectives)}: {', '.join(held)}"
