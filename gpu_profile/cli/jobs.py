"""Find the job, the launcher and the run that --job names."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_profile.cli.paths import records_file
from gpu_profile.declared.launchers import LAUNCHERS, OBJECT_ROW
from gpu_profile.declared.object_kinds import ObjectKind, find_kind
from gpu_profile.errors import EngineAwayError, JobError, SettingsError, ToolError
from gpu_profile.job import Handle
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.registry.digests import apply_digest
from gpu_profile.runs import record
from gpu_profile.runs.record import RunRecord
from gpu_profile.settings.settings import Settings

if TYPE_CHECKING:  # ruamel.yaml takes 50 ms, which most verbs do not need
    from gpu_profile.manifest.batch_script import BatchScript
    from gpu_profile.manifest.compose import ComposeService
    from gpu_profile.manifest.manifest_launcher import (
        ManifestLauncher,
        ScriptLauncher,
        ServiceLauncher,
    )
    from gpu_profile.manifest.user_manifest import UserManifest


def load_launcher(name: str) -> type[Launcher]:
    """Return the launcher's class. Only its own module is imported."""
    launcher: type[Launcher] = LAUNCHERS[name].load_class()
    return launcher


def launcher_of(name: str, settings: Settings) -> Launcher:
    """Return the launcher of a name in --on, or of the kind of object that a handle begins with."""
    kind = None if name in LAUNCHERS else find_kind(name)
    if kind is None:
        return load_launcher(name).from_settings(settings)
    return open_object(kind, settings)


def open_object(
    kind: ObjectKind, settings: Settings, manifest: "UserManifest | None" = None
) -> "ManifestLauncher":
    """Return the launcher of an object of this kind: of a manifest's, or of a handle's."""
    launcher: ManifestLauncher = OBJECT_ROW.load_class().from_kind(settings, kind, manifest)
    return launcher


def open_script(mark: str, script: "BatchScript", settings: Settings) -> "ScriptLauncher":
    """Return the launcher that runs a script whose lines begin with this mark."""
    row = next(row for row in LAUNCHERS.values() if row.mark == mark)
    launcher: ScriptLauncher = row.load_class().from_settings(settings)
    return launcher.with_script(script)


def open_service(service: "ComposeService", settings: Settings) -> "ServiceLauncher":
    """Return the launcher that runs a service of a compose file in its image."""
    row = next(row for row in LAUNCHERS.values() if row.runs_services)
    settings = dataclasses.replace(settings, launcher=row.name)
    settings = with_image(settings, service.address)
    launcher: ServiceLauncher = row.load_class().from_settings(settings)
    return launcher.with_service(service)


def with_image(settings: Settings, image: str) -> Settings:
    """Return the settings with --image as their launcher reads it; unchanged for "".

    The image of ours whose nsys is carried to it goes by the digest that `invoke push` recorded,
    where a cluster pulls it.
    """
    if not image:
        return settings
    launcher = load_launcher(settings.launcher)
    if ImageFrom.REGISTRY in launcher.possible_images:
        ours = apply_digest(records_file(), settings.carrier_ref)
        settings = dataclasses.replace(
            settings, component={**settings.component, "CARRIER_IMAGE": str(ours)}
        )
    return launcher.with_image(settings, image)


def name_launchers(condition: Callable[[type[Launcher]], bool]) -> str:
    """Return the launchers that fit, for a hint: `slurm, mpijob or trainjob`. Imports them all."""
    *names, last = (name for name in LAUNCHERS if condition(load_launcher(name)))
    return f"{', '.join(names)} or {last}" if names else last


def run_at_home(job_text: str, settings: Settings) -> tuple[Path, RunRecord] | None:
    """Return the directory and record of a --job whose engine has removed it, otherwise None.

    Raises SettingsError for a text that is no handle and names no run.
    """
    if not job_text:
        return None
    try:
        directory = record.find_run(settings.report_dir, job_text)
    except SettingsError:
        if "://" not in job_text:
            raise
        return None
    run = record.load_run(directory)
    return (directory, run) if run.cleaned else None


@contextlib.contextmanager
def explaining_lost_start(job_text: str, settings: Settings) -> Iterator[None]:
    """Add how to remove the run to an error, where a killed process never submitted the job."""
    never_started = False
    with contextlib.suppress(SettingsError):
        directory = record.find_run(settings.report_dir, job_text)
        never_started = record.load_run(directory).phase == "submitting"
    try:
        yield
    except (SettingsError, JobError, ToolError) as error:
        if not never_started or isinstance(error, EngineAwayError):
            raise
        hint = "Its process was killed before the job began: `invoke reports --prune --older 0h`"
        hint = f"{error.hint}. {hint} removes it" if error.hint else f"{hint} removes it"
        raise type(error)(error.what, hint) from error


def job_of(job_text: str, settings: Settings) -> tuple[Launcher, str] | None:
    """Return the launcher and id of --job, which is a handle or a run id; None without the flag."""
    if not job_text:
        return None
    if "://" not in job_text:
        job_text = record.load_run(record.find_run(settings.report_dir, job_text)).handle
    handle = Handle.parse(job_text)
    return launcher_of(handle.launcher, settings), handle.id
