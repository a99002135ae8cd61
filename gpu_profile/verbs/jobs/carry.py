"""profile --carry: bring nsys to an image or a machine that has none."""

from gpu_profile import process
from gpu_profile.cli.jobs import name_launchers
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.errors import NoNsysError, SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launcher import Carrying, ImageFrom, Launcher
from gpu_profile.progress import Progress
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.from_flags.job import SAMPLE
from gpu_profile.verbs.jobs.from_flags.nsys_plan import nsys_plan


def refuse_carry(options: ProfileOptions, launcher: Launcher) -> None:
    """Raise SettingsError for --carry where the launcher's jobs always have nsys of their own."""
    if options.carry and launcher.carrying is Carrying.NEVER:
        what = f"--carry: with these settings jobs of {launcher.name} have nsys already"
        others = name_launchers(lambda other: other.carrying is not Carrying.NEVER)
        raise SettingsError(what, f"Leave it out, or use {others}")


def plan_carried(
    job: Job, launcher: Launcher, settings: Settings, options: ProfileOptions
) -> tuple[Job, NsysPlan, tuple[str, ...]]:
    """Return the job, with a carrier if it needs one, and what nsys_plan returns of it."""
    if job.is_by_torch:
        job = _bring_agent(job, launcher)
        return job, *nsys_plan(job, launcher, settings)
    job = _carry_nsys(job, launcher, options, wanted=options.carry)
    try:
        return job, *nsys_plan(job, launcher, settings, strict=options.strict)
    except NoNsysError:
        if job.carrier:
            raise
    job = _carry_nsys(job, launcher, options, wanted=True)
    return job, *nsys_plan(job, launcher, settings, strict=options.strict)


def _bring_agent(job: Job, launcher: Launcher) -> Job:
    """Return the job with our agent in its image, if that lacks it, as far as a launcher can.

    Raises ToolError where what is there is older than --with.
    """
    job = process.drive(launcher.carry(job, wanted=False))
    if launcher.images is not ImageFrom.REGISTRY:
        return job  # its agent is that of this program
    try:
        process.drive(launcher.probe(job))
    except NoNsysError:
        job = process.drive(launcher.carry(job, wanted=True))
        _check_carried(job, launcher)
    return job


def _check_carried(job: Job, launcher: Launcher) -> None:
    what = f"{job.image} has no agent of ours that knows --with torch"
    hint = "`invoke build` and `invoke push` make an image that has"
    if job.carrier is None:
        raise ToolError(what, hint)
    Progress().say(f"our agent is carried to {job.image}: {job.carrier.source}")
    try:
        process.drive(launcher.probe(job))
    except NoNsysError as error:
        raise ToolError(f"{what}, nor has {job.carrier.source}", hint) from error


def _carry_nsys(job: Job, launcher: Launcher, options: ProfileOptions, *, wanted: bool) -> Job:
    """Return the job with a carrier if its image has no nsys of ours, or if that is `wanted`."""
    carried = process.drive(launcher.carry(job, wanted=wanted))
    if carried.carrier is None:
        return job
    if not options.words and not options.manifest:
        what = f"{job.image or 'the machine'} has no {SAMPLE[-1]}"
        raise SettingsError(what, "Write its command after --")
    Progress().say(f"nsys is carried to {job.image or 'the machine'}: {carried.carrier.source}")
    return carried
