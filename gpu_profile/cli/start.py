"""The start of the console command and of `./inv`: handlers of signals first, then Invoke.

./inv calls `python -m gpu_profile.cli.start VERB`. It runs Invoke's own program, which finds the
clone's tasks.py.
"""

import errno
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpu_profile.cli.early_signals import install_early_handlers

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Run the console command `gpu-profile`."""
    install_early_handlers()
    from gpu_profile.cli import tasks  # imports Invoke and the table of verbs

    _run(tasks.main)


def _run(program: Callable[[], object]) -> NoReturn:
    """Run the program and exit with its code.

    The output is flushed here: Python's own flush at the end would report an error by a traceback
    and exit code 120.
    """
    if sys.stdout is None:  # closed, by `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open to the end
    code: int | str | None = 0
    try:
        program()
    except SystemExit as end:
        code = end.code
    except OSError as error:
        code = _drop_output(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _drop_output(error)
    sys.exit(code)


def _drop_output(error: OSError) -> int:
    """Drop what is left to print, and return the exit code.

    That is 0 if the reader of the output, such as `head`, has gone, and 3 with one line if there is
    no room. Raises other errors again.
    """
    if not isinstance(error, BrokenPipeError) and error.errno not in _NO_ROOM:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    sys.stderr.write(f"error: the output: {error.strerror}. Make room, or choose another place.\n")
    return 3


def _run_invoke() -> None:
    runpy.run_module("invoke", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    install_early_handlers()
    _run(_run_invoke)
