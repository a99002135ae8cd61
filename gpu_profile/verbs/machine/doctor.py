"""doctor: what this or a remote machine can do, and what to do about the rest."""

import os
from collections.abc import Iterable
from datetime import datetime, timezone

from gpu_profile import process
from gpu_profile.check import Check
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of
from gpu_profile.cli.options.machine import DoctorOptions
from gpu_profile.cli.terminal import ask_user, print_tables, run_or_raise
from gpu_profile.doctor import engine as engine_checks
from gpu_profile.doctor import fix_engine
from gpu_profile.doctor import host as host_doctor
from gpu_profile.doctor import kubernetes as kubernetes_doctor
from gpu_profile.doctor.pod_rights import explain_rights
from gpu_profile.engine import probe as engine
from gpu_profile.errors import ToolError
from gpu_profile.image import embedded_base
from gpu_profile.launchers.agent.scripts import Scripted
from gpu_profile.launchers.kubernetes.job import KubernetesJob
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Column, Table

_ENGINE = {"docker client", "docker engine", "docker buildx"}


def doctor(options: DoctorOptions) -> None:
    chosen = load_settings(options)
    if chosen.launcher == "docker" and options.fix:
        _fix_engine(yes=options.yes)
    results = _collect_checks(chosen)
    show_checks(results, options.format)
    missing = [check for check in results if not check.ok and check.name in _ENGINE]
    if missing:
        raise ToolError(f"{missing[0].name}: {missing[0].found or 'missing'}", missing[0].advice)


def _collect_checks(chosen: Settings) -> tuple[Check, ...]:
    launcher = launcher_of(chosen.launcher, chosen)
    if isinstance(launcher, KubernetesJob):
        steps = kubernetes_doctor.check_cluster(launcher.cluster, launcher.name, launcher.kind)
        return (*process.drive(steps), *explain_rights(launcher.name, launcher.options))
    if isinstance(launcher, Scripted):
        return process.drive(host_doctor.check_host(launcher))
    answered = process.drive(engine.probe_engine())
    if not answered.server:
        return engine_checks.check_engine(answered)
    base = process.drive(embedded_base.check_age(datetime.now(timezone.utc)))
    return (*engine_checks.check_engine(answered), *base)


def show_checks(checks: Iterable[Check], form: str) -> None:
    rows = tuple(
        (check.name, "ok" if check.ok else "missing", check.found, "" if check.ok else check.advice)
        for check in checks
    )
    columns = (Column("What"), Column("State"), Column("Found"), Column("What to do"))
    print_tables([Table("doctor", columns, rows)], form)


def _fix_engine(*, yes: bool) -> None:
    """Install and start an engine, after showing the commands.

    Does nothing if no package helps: the checks explain why.
    """
    engine_state = process.drive(engine.probe_engine())
    commands = process.drive(fix_engine.plan_fix(engine_state))
    if not commands:
        return
    is_root = not hasattr(os, "geteuid") or os.geteuid() == 0
    has_sudo = process.find_program("sudo") is not None
    commands = fix_engine.for_user(commands, is_root=is_root, has_sudo=has_sudo)
    print("No usable Docker Engine here. To install and start one:")
    for command in commands:
        print(f"  {command}")
        for line in command.stdin.splitlines():
            print(f"    | {line}")
    if not ask_user("Do this?", yes=yes):
        raise ToolError("nothing was installed", "`./inv doctor --fix --yes` installs it")
    if is_root:
        process.drive(fix_engine.run_fix(commands))
        return
    for command in commands:  # on the user's terminal, where sudo may ask for a password
        run_or_raise(command, ToolError)
