"""The name that the user has typed: `gpu-profile`, or `invoke` in a clone."""

import sys
from pathlib import Path

PROGRAM = "gpu-profile"
"""The console command that a wheel installs."""

CLONE_ONLY = ("check",)
"""Verbs that read what only the repository has, such as its tests."""


def is_console() -> bool:
    """Return whether the user has typed `gpu-profile`, and not `invoke`."""
    return Path(sys.argv[0]).stem == PROGRAM


def program_name() -> str:
    return PROGRAM if is_console() else "invoke"


def name_program(text: str) -> str:
    """Return a text whose commands have the user's name of the program.

    `invoke build` in backquotes becomes `gpu-profile build` for the console command.
    """
    return text.replace("`invoke ", f"`{program_name()} ")
