"""exec: run a command in the local container."""

import sys

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import ExecOptions
from gpu_profile.engine import container


def exec(options: ExecOptions) -> None:
    """Run words in the local container, or a shell. Exits with the program's exit code."""
    settings = load_settings(options)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    argv = options.words or ("bash",)
    process.drive(container.require_container(settings.container, running=True))
    code = process.run_attached(
        container.execute_in_container(settings.container, argv, terminal=terminal)
    )
    if code:
        sys.exit(code)
