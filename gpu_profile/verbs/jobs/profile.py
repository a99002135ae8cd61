"""profile: run a command under nsys, fetch its reports and print what they tell."""

import dataclasses

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of, with_image
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.terminal import has_waiting_input, show_commands
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, ProfileSpec
from gpu_profile.launcher import Launcher
from gpu_profile.nsys.help import TYPICAL_HELP
from gpu_profile.nsys.recorded_part import describe_recorded_part
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, record
from gpu_profile.runs.follower import tell_left
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.jobs.carry import plan_carried, refuse_carry
from gpu_profile.verbs.jobs.from_flags.job import job_from
from gpu_profile.verbs.jobs.from_flags.nsys_plan import plan_for
from gpu_profile.verbs.jobs.own_file.manifest import refuse_without_manifest
from gpu_profile.verbs.jobs.own_file.open_file import OwnFile, open_file
from gpu_profile.verbs.jobs.start_run import start_run
from gpu_profile.verbs.jobs.tell_run import tell_run, telling_reports
from gpu_profile.verbs.jobs.tool import refuse_tool, tell_armed_cost

_NO_NSYS = NsysPlan(options=())


def profile(options: ProfileOptions) -> None:
    """Run a command under nsys, fetch and validate the reports, print the findings.

    With --detach it returns after the submission; with --dry-run it prints the commands.
    """
    if options.baseline and options.detach:
        raise SettingsError("--baseline waits for two runs", "Leave out --detach")
    settings = with_image(apply_version(load_settings(options)), options.image)
    if options.manifest:
        file = open_file(options, settings)
        refuse_tool(options, file.launcher, settings.annotate)
        _profile_file(file, options, settings)
        return
    refuse_without_manifest(options)
    launcher = launcher_of(settings.launcher, settings)
    job = job_from(options, settings, launcher)
    refuse_carry(options, launcher)
    refuse_tool(options, launcher, settings.annotate)
    if options.dry_run:
        if options.baseline:
            show_commands(process.plan(launcher.submit(_make_plain(strip_values(job)), _NO_NSYS)))
        show_plan(strip_values(job), launcher, carry=options.carry)
        return
    _tell_unused(options)
    tell_left(settings.report_dir)
    job, plan, kinds = plan_carried(job, launcher, settings, options)
    process.drive(launcher.check_job(job, plan))
    secrets = redact.secret_values(options.environ)
    # First: a plain run that fails has cost no profile.
    plain = _run_baseline(job, launcher, settings, secrets) if options.baseline else None
    runner, run = _start_run(job, plan, kinds, launcher, settings, secrets, keep=options.keep)
    _follow_run(runner, run, options, settings, plain)


def _profile_file(file: OwnFile, options: ProfileOptions, settings: Settings) -> None:
    """Profile what a file of --manifest says; with --dry-run print what is added to it."""
    launcher = file.launcher
    if options.dry_run:
        _, job = process.plan_value(launcher.carry(file.job, wanted=options.carry))
        plan, _ = plan_for(job, job.profile or ProfileSpec(), TYPICAL_HELP)
        file.show(job, plan)
        return
    tell_left(settings.report_dir)
    file.announce()
    job, plan, kinds = plan_carried(file.job, launcher, settings, options)
    kinds = () if file.is_mixed else kinds
    process.drive(launcher.check_job(job, plan))
    file.agree(job, plan)
    secrets = redact.secret_values(options.environ)
    runner, run = _start_run(job, plan, kinds, launcher, settings, secrets, keep=options.keep)
    _follow_run(runner, run, options, settings)


def _follow_run(
    runner: Runner,
    run: RunRecord,
    options: ProfileOptions,
    settings: Settings,
    plain: tuple[list[float], float] | None = None,
) -> None:
    """Wait for the run's end and tell what its reports say, or leave it with --detach."""
    if options.detach:
        runner.detach()
        runner.progress.say(f"`invoke fetch --job {run.id}` waits for it and brings its reports")
        print(run.handle)
        return
    with telling_reports(runner.directory, options, settings):
        run = _save_cost(runner, runner.finish(run), plain)
    tell_run(run, runner.directory, options, settings)


def _tell_unused(options: ProfileOptions) -> None:
    """Say what the command line leaves open: no command, or input that no job reads."""
    if not options.words:
        Progress().say("no command after --: this profiles the sample training, /train.py")
    if has_waiting_input():
        Progress().say("note: standard input does not reach the job: have it read a file")


def show_plan(job: Job, launcher: Launcher, *, carry: bool) -> None:
    """Print the commands of --dry-run, with the options of a typical nsys.

    The job's own nsys is not asked, because that would run something; nor is its image, whether it
    has one: `carry` says so.
    """
    if carry or job.is_by_torch:
        commands, job = process.plan_value(launcher.carry(job, wanted=carry))
        show_commands(commands)
    spec = job.profile or ProfileSpec()
    if spec.tool == "nsys":
        question = process.plan(launcher.probe(job))[0]
        print(f"# nsys options as of a typical nsys; the job's is asked by: {question}")
    if part := describe_recorded_part(spec):
        print(f"# recorded: {part}")
    if place := launcher.name_place(job.name):
        print(f"# reports come here, and stay in {place}")
    plan, _ = plan_for(job, spec, TYPICAL_HELP)
    show_commands(process.plan(launcher.submit(job, plan)))


def _start_run(
    job: Job,
    plan: NsysPlan,
    kinds: tuple[str, ...],
    launcher: Launcher,
    settings: Settings,
    secrets: tuple[str, ...],
    *,
    keep: bool = False,
) -> tuple[Runner, RunRecord]:
    """Submit the job into a run directory of its own, and say where that is."""

    def name_job(name: str) -> Job:
        return dataclasses.replace(job, name=name)

    tell_armed_cost(job, kinds, launcher)
    runner, run = start_run(
        job.name, name_job, launcher, settings, plan, kinds, secrets=secrets, keep=keep
    )
    runner.progress.say(f"{run.handle} submitted; its run directory is {runner.directory}")
    if place := launcher.name_place(run.id):
        runner.progress.say(f"its reports stay in {place}, too")
    return runner, run


def _make_plain(job: Job) -> Job:
    """Return the job of --baseline: without nsys, its steps timed where marks are wanted."""
    is_marked = job.profile is not None and job.profile.annotate != "none"
    return dataclasses.replace(
        job, name=f"{job.name}-plain", profile=None, has_step_times=is_marked
    )


def strip_values(job: Job) -> Job:
    """Return the job without the values of its variables."""
    return dataclasses.replace(job, env=dict.fromkeys(job.env, "***"))


def _run_baseline(
    job: Job, launcher: Launcher, settings: Settings, secrets: tuple[str, ...]
) -> tuple[list[float], float]:
    """Run the job without nsys. Returns the milliseconds of its steps, and its seconds."""
    runner, run = _start_run(_make_plain(job), _NO_NSYS, (), launcher, settings, secrets)
    run = runner.finish(run)
    return baseline.list_step_ms(runner.directory), run.seconds["run"]


def _save_cost(
    runner: Runner, run: RunRecord, plain: tuple[list[float], float] | None
) -> RunRecord:
    """Write the cost of profiling into the run's record."""
    if plain is None:
        return run
    cost = baseline.compute_cost(
        plain[0], baseline.list_step_ms(runner.directory), plain[1], run.seconds["run"]
    )
    run = dataclasses.replace(run, baseline=cost)
    record.save_run(run, runner.directory)
    return run
