"""drill: run a run's command again, one rank under Nsight Compute, for the costliest kernels."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from gpu_profile import files, process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of, load_launcher, name_launchers, with_image
from gpu_profile.cli.options.jobs import DrillOptions
from gpu_profile.cli.terminal import print_tables, show_commands
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.drill.choose_kernels import DrillPlan, plan_drill
from gpu_profile.drill.drilled import FILE, Drilled, make_table, match_launches, tell_drilled
from gpu_profile.drill.ncu_details import MARK, read_details
from gpu_profile.drill.ncu_options import list_ncu_options
from gpu_profile.errors import GpuProfileError, JobError, ReportError, SettingsError
from gpu_profile.formats.table_formats import to_json
from gpu_profile.job import Handle, Job, NcuPlan, NsysPlan, Resources
from gpu_profile.launcher import Launcher
from gpu_profile.progress import Progress
from gpu_profile.redact import HIDDEN
from gpu_profile.runs import prune, record
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.jobs.from_flags.job import parse_environment
from gpu_profile.verbs.jobs.from_flags.mounts import find_workdir, parse_mount
from gpu_profile.verbs.jobs.start_run import start_run
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading

_PLAN = NsysPlan(options=(), needs_privileges=True)
"""ncu reads GPU counters, which takes CAP_SYS_ADMIN in a container."""
LOG = "drill.log"


def drill(options: DrillOptions) -> None:
    """Measure the kernels that cost most, print what limits each, and keep that for the page."""
    if not options.top:
        raise SettingsError("--top 0 leaves no kernel to measure", "Use --top 1 or more")
    settings = apply_version(load_settings(options))
    directory = record.find_run(settings.report_dir, options.run)
    run = record.load_run(directory)
    settings = _use_launcher(options, run, settings)
    plan = _plan(directory, options, settings)
    launcher = launcher_of(settings.launcher, settings)
    job = _make_job(run, options, launcher, plan)
    if options.dry_run:
        # --env may hold a token, and --dry-run prints the command.
        hidden = dataclasses.replace(job, env=dict.fromkeys(job.env, "***"))
        show_commands(process.plan(launcher.submit(hidden, _PLAN)))
        return
    job = process.drive(launcher.carry(job, wanted=False))
    process.drive(launcher.check_job(job, _PLAN))
    count = len(plan.kernels)
    Progress().say(f"ncu measures {count} kernel{'s' * (count > 1)} of rank {plan.rank}")
    drilled = _match(plan, run, _run_job(job, launcher, settings, directory, options))
    table = make_table(plan, drilled)
    files.write_atomically(directory / FILE, to_json([table]), mode=0o600)
    if options.format != "text":
        print_tables([table], options.format)
        return
    print("\n".join(tell_drilled(plan, drilled)))


def _match(plan: DrillPlan, run: RunRecord, details: str) -> tuple[Drilled, ...]:
    """Return the plan's kernels with what ncu measured. Raises ReportError if it met none."""
    launches = read_details(details)
    drilled = match_launches(plan, launches)
    if not any(each.launch for each in drilled):
        what = f"ncu met none of the kernels of {run.id}: it measured {launches[0].name}"
        raise ReportError(what, "The program must repeat the recorded steps")
    return drilled


def _use_launcher(options: DrillOptions, run: RunRecord, settings: Settings) -> Settings:
    """Return the settings of the run's launcher and image. Raises SettingsError for some.

    The launcher is that of the handle, which a job in a container cannot change (job_note.py).
    """
    name = options.on or (Handle.parse(run.handle).launcher if run.handle else run.launcher)
    if name not in LAUNCHERS or not load_launcher(name).drills:
        can = name_launchers(lambda launcher: launcher.drills)
        raise SettingsError(f"a run of {name} is not started again under ncu", f"Use --on {can}")
    settings = dataclasses.replace(settings, launcher=name)
    return with_image(settings, run.image)


def _plan(directory: Path, options: DrillOptions, settings: Settings) -> DrillPlan:
    """Return what ncu measures. Raises ReportError for a run without kernels of this rank."""
    reading = open_reading(ReportChoice(run=str(directory)), settings)
    answers = reading.of([plan_drill(options.top)])
    plans: list[DrillPlan] = [plan for answer in answers for plan in answer[0]]
    chosen = next((plan for plan in plans if plan.rank == options.rank), None)
    if chosen:
        return chosen
    ranks = ", ".join(str(plan.rank) for plan in plans)
    if ranks:
        raise SettingsError(f"--rank {options.rank} has no kernels", f"These ranks have: {ranks}")
    what = f"{directory.name} holds no kernel that ncu could measure"
    raise ReportError(what, "Kernels in CUDA graphs need `profile --cuda-graph-trace node`")


def _make_job(run: RunRecord, options: DrillOptions, launcher: Launcher, plan: DrillPlan) -> Job:
    """Return the job. A container can write to run.json, so --mount is given again, as is --env."""
    _require_again("mounts", "--mount", run, options.mount)
    resources = _read_resources(run)
    return Job(
        name=record.run_id(run.command, datetime.now(timezone.utc), f"drill-{run.id}"),
        command=_find_command(run, options.words),
        image=ImageRef.parse(run.image) if run.image else None,
        profile=None,
        ncu=NcuPlan(rank=plan.rank, options=list_ncu_options(plan), limit_s=options.limit),
        resources=resources,
        ddp=bool(run.spec.get("ddp")) or (resources.tasks_per_node or 1) > 1,
        env=_find_environment(run, options),
        mounts=tuple(map(parse_mount, options.mount)),
        workdir=find_workdir(options.mount, launcher),
    )


def _read_resources(run: RunRecord) -> Resources:
    """Return the resources of run.json, which is input: what is no number is left out."""
    resources = run.spec.get("resources")
    names = {field.name for field in dataclasses.fields(Resources)}
    numbers = resources if isinstance(resources, dict) else {}
    return Resources(**{k: v for k, v in numbers.items() if k in names and type(v) is int})


def _list_words(run: RunRecord, key: str) -> list[str]:
    words = run.spec.get(key)
    return [str(word) for word in words] if isinstance(words, list) else []


def _require_again(key: str, flag: str, run: RunRecord, given: Sequence[str]) -> None:
    had = _list_words(run, key)
    if had and not given:
        raise SettingsError(f"{run.id} had {flag} {had[0]}", f"Give it again: {flag} {had[0]}")


def _find_command(run: RunRecord, words: Sequence[str]) -> tuple[str, ...]:
    command = tuple(words) or run.command
    if any(HIDDEN in word for word in command):
        what = f"the record of {run.id} hides a secret of its command"
        raise SettingsError(what, "Write the whole command after --")
    if not command:
        raise SettingsError(f"{run.id} has no command", "Write it after --")
    return command


def _find_environment(run: RunRecord, options: DrillOptions) -> dict[str, str]:
    """Return the variables of --env. Raises SettingsError if one that the run had is missing."""
    environment = parse_environment(options)
    names = [name for name in _list_words(run, "env") if name not in environment]
    if names:
        what = f"{run.id} had variables whose values are not kept: {', '.join(names)}"
        raise SettingsError(what, f"Give them again: --env {names[0]}=VALUE")
    return environment


def _run_job(
    job: Job, launcher: Launcher, settings: Settings, directory: Path, options: DrillOptions
) -> str:
    """Run the job to its end and return its output. What it left is kept in the run's directory.

    The measured rank ends with a code that is no success, so that the others end, too.
    """

    def name_job(name: str) -> Job:
        return dataclasses.replace(job, name=name)

    secrets = redact.secret_values(options.environ)
    runner, started = start_run(job.name, name_job, launcher, settings, _PLAN, secrets=secrets)
    failure: GpuProfileError | None = None
    try:
        runner.finish(started)
    except JobError as error:
        failure = error
    log = _keep(runner.directory, directory)
    # The job is made to fail once ncu has measured; without its mark the failure is another one.
    if failure and MARK not in log:
        what = failure.what.replace(str(runner.directory / OUTPUT_FILE), str(directory / LOG))
        raise JobError(what, f"See {directory / LOG}")
    return log


def _keep(source: Path, directory: Path) -> str:
    """Move a job's output and ncu's reports into the run's directory; remove the job's own."""
    log = files.read_text(source / OUTPUT_FILE) if (source / OUTPUT_FILE).exists() else ""
    files.write_atomically(directory / LOG, log, mode=0o600)
    for report in source.glob("rank*.ncu-rep"):
        files.adopt(report, directory / f"drill.{report.name}")
    prune.remove_runs([source])
    return log
