"""What the image's tests share: a command in a fresh container of the image."""

import functools

from gpu_profile import process
from gpu_profile.command import Command, Result, make_command

NOT_APPLICABLE = 77
"""The exit code of a check that has nothing to check; its last line is the reason."""


@functools.cache
def gpus() -> tuple[str, ...]:
    """All GPUs, where the engine has any to give."""
    runtimes = process.run(make_command("docker", "info", "--format={{json .Runtimes}}")).stdout
    return ("--gpus=all",) if '"nvidia"' in runtimes else ()


def in_container(image: str, *argv: str, options: tuple[str, ...] = ()) -> Result:
    return process.run(check_command(image, *argv, options=options), timeout_s=300)


def check_command(image: str, *argv: str, options: tuple[str, ...] = ()) -> Command:
    return make_command("docker", "run", "--rm", *gpus(), *options, image, *argv)


def last_line(result: Result) -> str:
    lines = (result.stdout.strip() or result.stderr.strip()).splitlines()
    return lines[-1] if lines else f"exit code {result.returncode}"
