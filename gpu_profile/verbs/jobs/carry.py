"""profile --carry: bring nsys to an image or a machine that has none."""

from gpu_profile import process
from gpu_profile.cli.jobs import name_launchers
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job
from gpu_profile.launcher import Carrying, Launcher
from gpu_profile.progress import Progress
from gpu_profile.verbs.jobs.job_from_flags import SAMPLE


def refuse_carry(options: ProfileOptions, launcher: Launcher) -> None:
    """Raise SettingsError for --carry where the launcher's jobs always have nsys of their own."""
    if options.carry and launcher.carrying is Carrying.NEVER:
        what = f"--carry: a job of {launcher.name} runs with these settings where nsys is"
        raise SettingsError(what, f"Leave it out, or use {_list_carrying()}")


def _list_carrying() -> str:
    return name_launchers(lambda launcher: launcher.carrying is not Carrying.NEVER)


def carry_nsys(job: Job, launcher: Launcher, options: ProfileOptions) -> Job:
    """Return the job with a carrier if its image has no nsys of ours, or with --carry."""
    carried = process.drive(launcher.carry(job, wanted=options.carry))
    if carried.carrier is None:
        return job
    if not options.words:
        what = f"{job.image or 'the machine'} has no {SAMPLE[-1]}"
        raise SettingsError(what, "Write its command after --")
    Progress().say(f"nsys is carried to {job.image or 'the machine'}: {carried.carrier.source}")
    return carried
