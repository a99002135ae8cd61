"""The verbs that the installed command has, and the name under which the user called it."""

from gpu_profile.printable import PROGRAM, is_console

CLONE_ONLY = ("check",)
"""Verbs that read what only the repository has, such as its tests."""


def program_name() -> str:
    return PROGRAM if is_console() else "invoke"
