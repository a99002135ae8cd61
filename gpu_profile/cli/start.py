"""The start of the console command and of `./inv`: handlers of signals first, then Invoke.

./inv calls `python -m gpu_profile.cli.start VERB`. It runs Invoke on the clone's tasks.py.
"""

import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from gpu_profile.cli.early_signals import install_early_handlers


def main() -> None:
    """Run the console command `gpu-profile`."""
    install_early_handlers()
    _prepare_workers(sys.argv[1:])
    from gpu_profile.cli import tasks  # imports Invoke and the table of verbs

    _run(tasks.main)


def _prepare_workers(words: Sequence[str]) -> None:
    """Start the server of the workers where the words tell that several reports will be read.

    It loads our modules while this process loads Invoke, which takes 0.2 s, and then ours too. A
    server that cannot start, such as in a TMPDIR too long for a socket, is no fault of words that
    are not parsed yet: a verb that needs it starts it again.
    """
    words = words[: words.index("--")] if "--" in words else words
    reports = sum(word.split("=")[0] == "--report" for word in words)
    reads_run = words[:1] == ["html"] and not reports
    if (reports > 1 or reads_run) and not {"--help", "-h", "--scheduler"} & {*words}:
        # OpenBLAS' threads spin for 0.15 s when numpy loads: 2 s of CPU on 16 cores, where this
        # process and the server load the modules. The only linear algebra is norms of vectors.
        os.putenv("OPENBLAS_NUM_THREADS", "1")
        from gpu_profile.analysis.multi_report.workers import server  # only for these

        with suppress(OSError):
            server.prepare_workers()


def _run(program: Callable[[], object]) -> NoReturn:
    """Run the program and exit with its code.

    The output is flushed here: Python's own flush at the end would report an error by a traceback
    and exit code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ASCII: PYTHONIOENCODING, LC_ALL=C
    if sys.stdout is None:  # closed, by `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open to the end
    code: int | str | None = 0
    try:
        program()
    except SystemExit as end:
        code = end.code
    except OSError as error:
        code = _end_output(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _end_output(error)
    # Python's last collections of garbage walk all objects: 0.05 s for the modules of a verb that
    # reads, and 0.08 s after a page.
    gc.freeze()
    sys.exit(code)


def _end_output(error: OSError) -> int:
    from gpu_profile.cli.terminal import drop_output  # for errors only

    return drop_output(error)


def _run_invoke() -> None:
    from gpu_profile import printable  # after the handlers of signals

    printable.use_script()
    if sys.argv[1:] in (["--help"], ["-h"]):
        sys.argv[1:] = ["help"]  # Invoke answers a bare --help before it imports tasks.py
    sys.argv[0] = "invoke"
    from gpu_profile.cli import tasks  # imports Invoke and the table of verbs

    tasks.run_clone()


if __name__ == "__main__":
    install_early_handlers()
    _prepare_workers(sys.argv[1:])
    _run(_run_invoke)
