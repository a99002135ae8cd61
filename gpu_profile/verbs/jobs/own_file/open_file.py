"""profile --manifest: the job and the launcher of a file, whichever of the three kinds it is."""

from collections.abc import Callable
from dataclasses import dataclass

from gpu_profile.cli.jobs import open_script
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, ProfileSpec
from gpu_profile.launcher import Launcher
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.from_flags.job import (
    job_from_manifest,
    job_from_script,
    job_from_service,
)
from gpu_profile.verbs.jobs.own_file.batch_script import (
    find_mark,
    read_script,
    show_script,
    tell_script,
)
from gpu_profile.verbs.jobs.own_file.compose_file import (
    is_compose_text,
    open_compose,
    show_service,
    tell_service,
)
from gpu_profile.verbs.jobs.own_file.manifest import (
    agree_to_replace,
    open_manifest,
    read_manifest,
    show_difference,
    tell_target,
)


def _agree_to_all(_job: Job, _plan: NsysPlan) -> None:
    """Ask nothing: the run changes nothing that is there."""


@dataclass(frozen=True, kw_only=True)
class OwnFile:
    """The job of a file of the user's own, and its launcher.

    `show` prints what is added to the file, for --dry-run; `tell` says what of it runs; `agree`
    raises SettingsError unless the user allows what the job replaces. `is_mixed`: some of its pods
    have no GPU, so that not every report holds the same kinds of events.
    """

    job: Job
    launcher: Launcher
    show: Callable[[Job, NsysPlan], None]
    announce: Callable[[], None]
    agree: Callable[[Job, NsysPlan], None] = _agree_to_all
    is_mixed: bool = False


def open_file(options: ProfileOptions, settings: Settings) -> OwnFile:
    """Return what --manifest names: a batch script, a compose file, or Kubernetes objects."""
    text = read_manifest(options.manifest)
    if find_mark(text):
        return _open_script(options, settings, text)
    if text.startswith("#!"):
        raise SettingsError(
            f"{options.manifest} is a script without #SBATCH lines",
            "Write what its job needs into it: #SBATCH --nodes=1",
        )
    if is_compose_text(options.manifest, text):
        return _open_service(options, settings)
    return _open_object(options, settings, text)


def _open_script(options: ProfileOptions, settings: Settings, text: str) -> OwnFile:
    script = read_script(options, text)
    launcher = open_script(script.mark, script, settings)
    return OwnFile(
        job=job_from_script(options, settings, launcher, script),
        launcher=launcher,
        show=lambda job, plan: show_script(job, plan, launcher, script),
        announce=lambda: tell_script(script),
    )


def _open_service(options: ProfileOptions, settings: Settings) -> OwnFile:
    launcher, service = open_compose(options, settings)
    return OwnFile(
        job=job_from_service(options, settings, launcher, service),
        launcher=launcher,
        show=lambda job, plan: show_service(job, plan, launcher, service),
        announce=lambda: tell_service(service),
    )


def _open_object(options: ProfileOptions, settings: Settings, text: str) -> OwnFile:
    launcher = open_manifest(options, settings, text)
    job = job_from_manifest(options, settings, launcher)
    return OwnFile(
        job=job,
        launcher=launcher,
        show=lambda job, plan: show_difference(job, plan, launcher),
        announce=lambda: tell_target(launcher, job.profile or ProfileSpec()),
        agree=lambda job, plan: agree_to_replace(job, plan, launcher, options),
        is_mixed=launcher.get_manifest().target.is_mixed,
    )
