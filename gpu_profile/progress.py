"""Show the progress of a long task: one changing line on a terminal, few lines elsewhere."""

import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, TextIO

from gpu_profile.printable import name_program, printable, printable_lines

_QUIET_S = 15.0  # between two lines of one phase, elsewhere than on a terminal


@dataclass
class Progress:
    """Writes to stderr, because stdout holds the command's own output."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _started: float = field(default_factory=time.monotonic)
    _phase: str = ""
    _said_at: float = float("-inf")
    _open: bool = False

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._close()
        print(printable_lines(name_program(line)), file=self.stream, flush=True)

    def show(self, phase: str, last_line: str = "") -> None:
        """Show the phase, the elapsed time and the job's last line.

        Elsewhere than on a terminal a line is printed when the phase changes, or after 15 s.
        """
        now = time.monotonic()
        phase, last_line = printable(phase), printable(last_line)
        text = f"{phase} {now - self._started:.0f} s"
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            shown = f"{text}  {last_line}"[:width]
            print(f"\r\x1b[2K{shown}", end="", file=self.stream, flush=True)
            self._open = True
        elif phase != self._phase or now - self._said_at >= _QUIET_S:
            print(f"{text}  {last_line}".rstrip(), file=self.stream, flush=True)
            self._said_at = now
        self._phase = phase

    def _close(self) -> None:
        if self._open:
            print("\r\x1b[2K", end="", file=self.stream)
            self._open = False


def copy_screen(screen: IO[bytes]) -> Iterator[str]:
    """Copy the bytes of a pty to standard error as they come, and yield complete lines."""
    rest = b""
    while chunk := _read_screen(screen):
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()
        *complete, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in complete)


def _read_screen(screen: IO[bytes]) -> bytes:
    try:
        return screen.read(1 << 16)
    except OSError:  # EIO: the other end of the pty is closed (Linux)
        return b""
