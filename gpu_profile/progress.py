"""Show the progress of a long task: one changing line on a terminal, few lines elsewhere."""

import os
import selectors
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, TextIO

from gpu_profile.printable import name_program, printable, printable_lines

_QUIET_S = 15.0  # between two lines of one phase, elsewhere than on a terminal


@dataclass
class Progress:
    """Writes to stderr, because stdout holds the command's own output.

    `title` stands before each phase: "pair 1 of 6, the base: ".
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    title: str = ""
    _start: float = field(default_factory=time.monotonic)
    _phase: str = ""
    _said_at: float = float("-inf")
    _is_open: bool = False

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._close()
        print(printable_lines(name_program(line)), file=self.stream, flush=True)

    def show(self, phase: str, last_line: str = "") -> None:
        """Show the phase, the elapsed time and the job's last line.

        Elsewhere than on a terminal a line is printed when the phase changes, or after 15 s.
        """
        now = time.monotonic()
        phase, last_line = printable(f"{self.title}{phase}"), printable(last_line)
        text = f"{phase} {now - self._start:.0f} s"
        if self.stream.isatty():
            # A full line would wrap, and `\r\x1b[2K` clears the last line alone.
            width = shutil.get_terminal_size().columns - 1
            shown = f"{text}  {last_line}"[:width]
            print(f"\r\x1b[2K{shown}", end="", file=self.stream, flush=True)
            self._is_open = True
        elif phase != self._phase or now - self._said_at >= _QUIET_S:
            print(f"{text}  {last_line}".rstrip(), file=self.stream, flush=True)
            self._said_at = now
        self._phase = phase

    def _close(self) -> None:
        if self._is_open:
            print("\r\x1b[2K", end="", file=self.stream)
            self._is_open = False


def open_screen() -> tuple[int, int]:
    """Return both ends of a new pty of our terminal's size: ours and the program's. POSIX only."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    # struct winsize of ioctl_tty(2): four shorts.
    size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return ours, theirs


def copy_to_stderr(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a program's output, each copied to standard error first."""
    for chunk in chunks:
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()
        yield chunk


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a program's output, also a last one that has no end."""
    unended = b""
    for chunk in chunks:
        *complete, unended = (unended + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in complete)
    if unended:
        yield unended.decode(errors="replace")


def read_chunks(
    source: IO[bytes], ask: Callable[[], None] | None = None, every_s: float = 0.0
) -> Iterator[bytes]:
    """Yield what comes out of a pipe or pty, and call `ask` every so many seconds meanwhile.

    Output is no reason not to ask: BuildKit draws the seconds of a build whose engine hangs.
    """
    ask = ask if os.name == "posix" else None  # Windows waits for sockets only
    due = time.monotonic() + every_s
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while True:
            ready = not ask or selector.select(max(0.0, due - time.monotonic()))
            if ask and time.monotonic() >= due:
                ask()
                due = time.monotonic() + every_s
            elif ready:
                if not (chunk := _read_chunk(source)):
                    return
                yield chunk


def _read_chunk(source: IO[bytes]) -> bytes:
    """Return what a pipe or pty holds, and wait if that is nothing yet; empty at its end."""
    try:
        return os.read(source.fileno(), 1 << 16)
    except OSError:  # EIO: the other end of the pty is closed (Linux)
        return b""
