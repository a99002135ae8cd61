"""End a rank's recording where the program's marks ask for it. Python 3.8, stdlib only.

The marks (annotate/gpu_profile_marks/ending.py) connect to a socket where their last step has
ended, send `end step 59`, or `end forward 59`, and wait for an `s`: nothing more is recorded. A `w`
follows once nsys has made its report. The connection breaks if this process is killed, so that the
program goes on.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from typing import TYPE_CHECKING

import shelter
from process_tree import LONGEST_S
from rank_processes import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nsys_session import Session

_REQUEST = re.compile(rb"end (step|forward) (\d{1,9})\n")


class RecordingEnd:
    """Listens on a socket. `at_report` is called when nsys has written the report.

    `address` is the path of the socket, "" for none: the recording then has no end.
    """

    def __init__(self, session: Session | None, rank: int) -> None:
        self.address = ""
        self.at_report: Callable[[], None] = lambda: None
        self.session = session
        self._rank = rank
        self._ending = threading.Lock()
        self._collected = threading.Event()
        self._completed = threading.Event()
        self._failure = ""
        self._worker = threading.Thread(target=self._end, args=(session,), daemon=True)
        self._last = ""

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Listen while the body runs, if there is a session."""
        with contextlib.ExitStack() as opened:
            try:
                if self.session is not None:
                    folder = opened.enter_context(shelter.make_held_folder())
                    self._listen(opened.enter_context(socket.socket(socket.AF_UNIX)), folder)
            except OSError as error:
                why = f"for lack of a socket: {error.strerror or error}"
                say(f"rank {self._rank}: it is recorded as a whole, {why}")
            yield

    def _listen(self, listener: socket.socket, folder: Path) -> None:
        # A socket's path has 107 bytes at most, and TMPDIR may be longer:
        # https://man7.org/linux/man-pages/man7/unix.7.html
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{handle}/end")
        finally:
            os.close(handle)
        address = str(folder / "end")
        listener.listen(8)  # processes of this rank: torchrun starts several under one nsys
        self.address = address
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def join(self) -> None:
        """Wait until the reports are complete, if the recording has ended."""
        if self._worker.ident is not None:
            self._worker.join(LONGEST_S)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        """Answer one process of the program, which waits for the end of the recording."""
        with line, contextlib.suppress(OSError):  # the process has ended meanwhile
            match = _REQUEST.fullmatch(line.recv(64))
            if match is None:
                return
            if self._ending.acquire(blocking=False):
                self._last = f"{match[1].decode()} {match[2].decode()}"
                self._worker.start()
            self._collected.wait()
            line.sendall(b"f" if self._failure else b"s")
            self._completed.wait()
            line.sendall(b"w")

    def _end(self, session: Session) -> None:
        with shelter.block_signals(True):  # of Slurm, which signals all processes of a step
            failure = self._failure = session.stop(self._collected.set)
        self._collected.set()
        who = f"rank {self._rank}"
        if failure:
            say(f"{who}: the recording goes on: nsys stop: {failure}")
        else:
            try:
                self.at_report()
            except OSError as error:  # such as a full disk
                say(f"{who}: its report is left for the end: {error.strerror}")
            say(f"{who}: the recording ended after {self._last}; the program goes on")
        self._completed.set()
