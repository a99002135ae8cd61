"""The options of nsys that record what the flags ask for, by the help text of the job's nsys."""

import contextlib
import dataclasses

from gpu_profile import files, process
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, ProfileSpec
from gpu_profile.launcher import Launcher
from gpu_profile.nsys import options as nsys
from gpu_profile.nsys.jax_script import imports_jax
from gpu_profile.nsys.permissions import list_concerns, remove_lacking
from gpu_profile.progress import Progress
from gpu_profile.runs.reports.validate import KINDS
from gpu_profile.settings.places import cache_folder
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.from_flags.job import SAMPLE


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
    nodes = imports_jax(job.command)
    options = nsys.profile_options(spec, help_text, gpus=gpus, nodes=nodes)
    first = nsys.first_options(spec, help_text, gpus=gpus, efa=bool(job.resources.efa_per_node))
    plan = NsysPlan(
        options=options, first=first, needs_privileges=nsys.needs_privileges((*options, *first))
    )
    kinds = nsys.expected_kinds(spec, options, gpus=gpus) & KINDS
    return plan, tuple(sorted(kinds))
