"""Set the umask, unblock signals, and become the program. Python 3.8, stdlib only.

    python3 -I -S start_program.py MARK UMASK 'SIGNAL…' PROGRAM ARGUMENT…

profile_ranks.py puts this between nsys and the program: `start_program.py m 0022 '1 15' /bin/date`.
MARK is a file that is removed here, or "". A shell in place of Python would drop variables such as
`A.B` (dash) or read BASH_ENV (bash).
"""

from __future__ import annotations

import os
import signal
import sys

_IGNORED = ("SIGPIPE", "SIGXFSZ")  # by Python; a program that it becomes would inherit that
_NOT_EXECUTABLE = 126


def main(mark: str, umask: str, unblocked: str, *command: str) -> int:
    """Execute the command in place of this process. Returns 126 if the kernel refuses it."""
    if os.access(mark, os.F_OK):
        os.unlink(mark)  # noqa: PTH108 - to import pathlib takes 10 ms
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [int(number) for number in unblocked.split()])
    os.umask(int(umask, 8))
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"profile.py: {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    return _NOT_EXECUTABLE


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
