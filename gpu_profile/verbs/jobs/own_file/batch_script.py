"""profile --manifest: the launcher and the words of a user's own batch script."""

from pathlib import Path

from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.manifest.batch_script import BatchScript, has_mark
from gpu_profile.manifest.manifest_launcher import ScriptLauncher
from gpu_profile.progress import Progress
from gpu_profile.verbs.jobs.own_file.manifest import list_launcher_flags, refuse_decided

_OF_SUBMITTING = ("login", "sbatch-args")
"""Flags of launchers that say how a script is submitted. What it asks for is its own."""


def find_mark(text: str) -> str:
    """Return what begins the lines that a scheduler reads in a text: `#SBATCH`; "" for others."""
    marks = [row.mark for row in LAUNCHERS.values() if row.mark]
    return next((mark for mark in marks if has_mark(text, mark)), "")


def read_script(options: ProfileOptions, text: str) -> BatchScript:
    """Return the script of --manifest. Raises SettingsError for flags that it decides."""
    launcher_flags = list_launcher_flags(options, *_OF_SUBMITTING)
    without_meaning = {
        "--container": options.container,
        "--template": options.template,
        "--yes": options.yes,
    }
    may_be_given = {"--gpus": False, "--gpus-per-node": False}  # not every script asks for them
    refuse_decided(options, {**launcher_flags, **may_be_given})
    flags = [flag for flag, value in without_meaning.items() if value]
    if flags:
        raise SettingsError(f"{flags[0]} means nothing for a batch script", "Leave it out")
    name = Path(options.manifest).name
    return BatchScript(name=name, text=text, mark=find_mark(text), words=tuple(options.words))


def describe_script(script: BatchScript) -> str:
    """Return the line on how ranks are found in a script, and where its output goes."""
    ways = "one report a rank that srun, mpirun or torchrun starts"
    path = script.find_option("output")
    output = f"; its output goes to the run's output.log, not to {path}" if path else ""
    return f"{script.name} runs as it is: {ways}{output}"


def show_script(job: Job, plan: NsysPlan, launcher: ScriptLauncher, script: BatchScript) -> None:
    """Print what is added to the lines that the scheduler reads, and what runs the script."""
    print(f"# {describe_script(script)}")
    print(launcher.compare_script(job, plan), end="")


def tell_script(script: BatchScript) -> None:
    Progress().say(describe_script(script))
