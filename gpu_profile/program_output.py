"""Read the output of a program while it runs: lines, what it draws, a copy in the background."""

import collections
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO

from gpu_profile import files, process, signals
from gpu_profile.command import Command, find_question
from gpu_profile.errors import ToolError
from gpu_profile.progress import copy_to_stderr, open_screen, read_chunks, split_lines

Copy = Callable[[IO[bytes], IO[bytes]], None]
_LAST_OUTPUT_S = 2.0  # for the end of a log, which follows that of its job


def read_lines(command: Command) -> Generator[str, None, int]:
    """Yield the lines of stdout and stderr as they come. The generator returns the exit code.

    Raises ToolError if the program's server does not answer for two minutes.
    """
    with process.open_piped(command) as (child, pipe):
        yield from split_lines(_read_output(pipe, command))
        return child.wait()


def read_output(command: Command) -> Iterator[bytes]:
    """Yield both outputs of a program in pieces, as they come.

    Raises ToolError if it fails in the end, or if its server does not answer for two minutes.
    """
    with process.open_piped(command) as (child, pipe):
        yield from _read_output(pipe, command)
        if code := child.wait():
            raise ToolError(f"`{command}` exited with {code}")


def copy_output(command: Command, target: IO[bytes], copy: Copy) -> int:
    """Copy both outputs of a program to a stream through `copy`. Returns the exit code."""
    with process.open_piped(command) as (child, pipe):
        copy(pipe, target)
        pipe.close()  # where the target was closed, as by `head`, the program ends too
        return child.wait()


def drawn_lines(command: Command) -> Generator[str, None, int]:
    """Yield the lines of a program on a pty, and copy its output to our terminal.

    For programs that draw progress only on a terminal (`docker buildx build`). POSIX only. Ctrl-C
    reaches the program too, and is raised again when the program has ended.
    """
    ours, theirs = open_screen()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with os.fdopen(theirs, "wb") as end:
            child = process.start_child(command, end, own_session=False)
        try:
            yield from split_lines(copy_to_stderr(_read_output(screen, command)))
        except (signals.Terminated, signals.HungUp, ToolError, GeneratorExit):
            process.end_child(child)
            raise
        except KeyboardInterrupt:
            collections.deque(copy_to_stderr(read_chunks(screen)), maxlen=0)
            raise
        finally:
            code = child.wait()
        return code


@contextlib.contextmanager
def in_background(command: Command, output: Path, copy: Copy) -> Iterator[Callable[[float], None]]:
    """Append both outputs of a program to a file through `copy` while the body runs.

    The body gets a function that sleeps for some seconds, or until the program ends. The program
    is ended with the body.
    """
    with files.open_to_append(output) as file, process.open_piped(command) as (child, pipe):
        copying = threading.Thread(target=copy, args=(pipe, file), daemon=True)
        copying.start()

        def pause(seconds: float) -> None:
            if child.poll() is not None:
                time.sleep(seconds)
                return
            process.wait_for(child, seconds)

        try:
            yield pause
            process.wait_for(child, _LAST_OUTPUT_S)
        finally:
            if child.poll() is None:
                process.close_group(child)
            copying.join(_LAST_OUTPUT_S)


def _read_output(source: IO[bytes], command: Command) -> Iterator[bytes]:
    """Yield a program's output. Its server is asked every 10 s, whatever the program draws."""
    question = find_question(command)
    ask = functools.partial(process.ask_server, question) if question else None
    return read_chunks(source, ask, process.LOOK_S)
