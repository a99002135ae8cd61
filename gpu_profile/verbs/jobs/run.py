"""run: start the local container."""

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import RunOptions
from gpu_profile.cli.terminal import show_commands
from gpu_profile.engine import container, image_programs
from gpu_profile.errors import GpuProfileError
from gpu_profile.runs import record
from gpu_profile.runs.job_note import JobNote, write_note
from gpu_profile.verbs.image.lock import apply_version


def run(options: RunOptions) -> None:
    """Start the local container, or print the commands with --dry-run."""
    settings = apply_version(load_settings(options))
    gpus = container.gpu_options(_count_gpus(planning=options.dry_run) and None)
    steps = container.start_container(settings, settings.image_ref, gpus)
    if options.dry_run:
        show_commands(process.plan(steps))
    else:
        directory = settings.report_dir / settings.container
        record.make_private(directory)
        write_note(directory, JobNote(handle=""))  # a run.json in it names no job of ours
        print(process.drive(steps))


def _count_gpus(*, planning: bool) -> int:
    """Return the engine's number of GPUs. --dry-run works without an engine too."""
    try:
        return process.drive(image_programs.count_gpus())
    except GpuProfileError:
        if planning:
            return 0
        raise
