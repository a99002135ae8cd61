"""Run the steps of a verb, or print them with --dry-run."""

from gpu_profile import process
from gpu_profile.cli.table import Options
from gpu_profile.cli.terminal import show_commands
from gpu_profile.command import Steps


def run_steps(steps: Steps[str], options: Options) -> None:
    if options["dry_run"]:
        show_commands(process.plan(steps))
    else:
        print(process.drive(steps))
