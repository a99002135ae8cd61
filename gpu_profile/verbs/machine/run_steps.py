"""Run the steps of a verb, or print them with --dry-run."""

from gpu_profile import process
from gpu_profile.cli.options.shared import DryRunOptions
from gpu_profile.cli.terminal import show_commands
from gpu_profile.command import Steps


def run_steps(steps: Steps[str], options: DryRunOptions) -> None:
    if options.dry_run:
        show_commands(process.plan(steps))
    else:
        print(process.drive(steps))
