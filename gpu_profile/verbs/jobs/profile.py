"""profile, fetch, reports: from a job's command line to its validated reports."""

import dataclasses
from pathlib import Path

from gpu_profile import files, process, redact
from gpu_profile.cli.flags import call, load_settings
from gpu_profile.cli.jobs import launcher_of
from gpu_profile.cli.table import Options, Verb
from gpu_profile.cli.terminal import print_tables, show_commands
from gpu_profile.errors import JobError, SettingsError
from gpu_profile.job import Handle, Job, NsysPlan, ProfileSpec
from gpu_profile.launcher import Launcher
from gpu_profile.nsys.help import TYPICAL_HELP
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, owner
from gpu_profile.runs import record as rundir
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Cell, Column, Table
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.jobs.job_from_flags import job_from, nsys_plan, plan_for, with_image

_NO_NSYS = NsysPlan(options=())


def profile(verb: Verb, options: Options) -> None:
    """Run a command under nsys, fetch and validate the reports, print the findings.

    With --detach it returns after the submission; with --dry-run it prints the commands.
    """
    if options["baseline"] and options["detach"]:
        raise SettingsError("--baseline waits for two runs", "Leave out --detach")
    chosen = apply_version(with_image(load_settings(verb, options), options))
    launcher = launcher_of(chosen.launcher, chosen)
    job = job_from(options, chosen, launcher)
    if options["dry_run"]:
        if options["baseline"]:
            show_commands(process.plan(launcher.submit(_make_plain(_strip_values(job)), _NO_NSYS)))
        _show_plan(_strip_values(job), launcher)
        return
    plan, kinds = nsys_plan(job, launcher, chosen, strict=bool(options["strict"]))
    secrets = redact.secret_values(options["environ"])
    plain = _run_baseline(job, launcher, chosen, secrets) if options["baseline"] else None
    keep = bool(options["keep"])
    runner, run = _start_run(job, plan, kinds, launcher, chosen, secrets, keep=keep)
    if options["detach"]:
        runner.progress.say(f"`invoke fetch --job {run.id}` waits for it and brings its reports")
        print(run.handle)
        return
    run = _save_cost(runner, runner.finish(run), plain)
    _tell(run, runner.directory, options, chosen)


def _tell(run: RunRecord, directory: Path, options: Options, chosen: Settings) -> None:
    """Print a run's reports, its findings, and the tables if asked for."""
    text = options["format"] != "json"
    if text:
        _print_summary(run, directory)
    if run.reports:
        # The job had its environment before this: numpy is imported here, with one thread.
        with process.one_math_thread():
            from gpu_profile.verbs.reading.answer import print_answer

            print_answer(options, chosen, directory)
    if text and run.reports and (options["stats"] or not _has_gpu_work(run)):
        print()
        call("stats", options, run=str(directory), top=10, table=_first_table(run), notes=False)


def _has_gpu_work(run: RunRecord) -> bool:
    return any(facts.events.get("cuda") for facts in run.reports)


def _show_plan(job: Job, launcher: Launcher) -> None:
    """Print the commands of --dry-run, with the options of a typical nsys.

    The job's own nsys is not asked, because that would run something.
    """
    question = process.plan(launcher.probe(job))[0]
    print(f"# nsys' options follow what this says, here a typical answer: {question}")
    plan, _ = plan_for(job, job.profile or ProfileSpec(), TYPICAL_HELP)
    show_commands(process.plan(launcher.submit(job, plan)))


def _start_run(
    job: Job,
    plan: NsysPlan,
    kinds: tuple[str, ...],
    launcher: Launcher,
    chosen: Settings,
    secrets: tuple[str, ...],
    *,
    keep: bool = False,
) -> tuple[Runner, RunRecord]:
    """Submit the job into a run directory of its own."""
    directory = rundir.create_run(chosen.report_dir, job.name)
    progress = Progress()
    runner = Runner(
        launcher=launcher,
        directory=directory,
        progress=progress,
        keep=keep,
        secrets=secrets,
        nsys=chosen.nsys,
    )
    run = runner.start(dataclasses.replace(job, name=directory.name), plan, kinds)
    progress.say(f"{run.handle} submitted; its run directory is {directory}")
    return runner, run


def _make_plain(job: Job) -> Job:
    return dataclasses.replace(job, name=f"{job.name}-plain", profile=None)


def _strip_values(job: Job) -> Job:
    """Return the job without the values of its variables."""
    return dataclasses.replace(job, env=dict.fromkeys(job.env, "***"))


def _run_baseline(
    job: Job, launcher: Launcher, chosen: Settings, secrets: tuple[str, ...]
) -> tuple[list[str], float]:
    """Run the job without nsys. Returns its output's lines and its seconds."""
    runner, run = _start_run(_make_plain(job), _NO_NSYS, (), launcher, chosen, secrets)
    run = runner.finish(run)
    return _read_output(runner.directory), run.seconds["run"]


def _read_output(directory: Path) -> list[str]:
    return files.read_text(directory / OUTPUT_FILE).splitlines()


def _save_cost(runner: Runner, run: RunRecord, plain: tuple[list[str], float] | None) -> RunRecord:
    """Write the cost of profiling into the run's record."""
    if plain is None:
        return run
    cost = baseline.compute_cost(
        plain[0], _read_output(runner.directory), plain[1], run.seconds["run"]
    )
    run = dataclasses.replace(run, baseline=cost)
    rundir.save_run(run, runner.directory)
    return run


def _first_table(run: RunRecord) -> str:
    """Return the table to print first: kernels if there are GPUs, otherwise NVTX ranges."""
    kinds = {kind for facts in run.reports for kind, count in facts.events.items() if count}
    tables = {"cuda": "cuda_gpu_kern_sum", "nvtx": "nvtx_sum", "mpi": "mpi_event_sum"}
    return next((table for kind, table in tables.items() if kind in kinds), "osrt_sum")


def fetch(verb: Verb, options: Options) -> None:
    """Fetch the reports of a run id or handle. A run of another machine gets a directory here."""
    chosen = load_settings(verb, options)
    if not options["job"]:
        raise SettingsError("fetch needs a job", "Use --job HANDLE or --job RUN-ID")
    directory = _directory_of(str(options["job"]), chosen)
    run = rundir.load_run(directory)
    if not run.cleaned:
        launcher = launcher_of(run.launcher, chosen)
        runner = Runner(
            launcher=launcher,
            directory=directory,
            progress=Progress(),
            secrets=redact.secret_values(options["environ"]),
            nsys=chosen.nsys,
        )
        run = runner.finish(run)
    _tell(run, directory, options, chosen)
    if run.baseline and not run.reports and options["format"] != "json":
        print(baseline.describe_cost(run.baseline))
    if run.error:
        raise JobError(run.error)


def _directory_of(run_name: str, chosen: Settings) -> Path:
    try:
        return rundir.find_run(chosen.report_dir, run_name)
    except SettingsError:
        if "://" not in run_name:
            raise
    handle = Handle.parse(run_name)
    # otherwise there is no job
    process.drive(launcher_of(handle.launcher, chosen).status(handle.id))
    directory = rundir.create_run(chosen.report_dir, Path(handle.id).name)
    record = RunRecord(
        id=directory.name, launcher=handle.launcher, command=(), handle=run_name, phase="running"
    )
    rundir.save_run(record, directory)
    return directory


def _print_summary(run: RunRecord, directory: Path) -> None:
    for facts in run.reports:
        kinds = ", ".join(f"{count} {kind}" for kind, count in facts.events.items() if count)
        print(f"{directory / facts.file}: {facts.bytes / 1e6:.1f} MB, {kinds} events")


def reports(verb: Verb, options: Options) -> None:
    """Print a table of the runs in REPORT_DIR."""
    chosen = load_settings(verb, options)
    names = ("Run", "Phase", "Launcher", "Exit code", "Reports", "MB", "Cost", "Command")
    rows = [
        *map(_own_row, rundir.list_runs(chosen.report_dir)),
        *map(_foreign_row, rundir.foreign_runs(chosen.report_dir)),
    ]
    table = Table("runs", tuple(Column(name) for name in names), tuple(rows))
    if rows or options["format"] != "text":
        print_tables([table], str(options["format"]))
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
