"""Set the umask, unblock signals, and become the program. Python 3.8, stdlib only.

    python3 -I -S start_program.py MARK UMASK 'SIGNAL…' 'PID INODE INODE' PROGRAM ARGUMENT…

profile_ranks.py puts this between nsys and the program:
`start_program.py m 0022 '1 15' '123 5006 5006' /bin/date`. MARK is a file that is removed here, or
"". Process PID has the stdout and stderr (their inodes) that the program gets; "": it keeps nsys'.
A shell in place of Python would drop variables such as `A.B` (dash) or read BASH_ENV (bash).
"""

from __future__ import annotations

import errno
import os
import signal
import sys

_IGNORED = ("SIGPIPE", "SIGXFSZ")  # by Python; a program that it becomes would inherit that
_NOT_EXECUTABLE = 126
COPIED = "nsys copies what the program prints into the report, and 100 MB take minutes"


def main(mark: str, umask: str, unblocked: str, outputs: str, *command: str) -> int:
    """Execute the command in place of this process. Returns 126 if the kernel refuses it."""
    if os.access(mark, os.F_OK):
        os.unlink(mark)  # noqa: PTH108 - to import pathlib takes 10 ms
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [int(number) for number in unblocked.split()])
    os.umask(int(umask, 8))
    if outputs:
        try:
            replace_outputs(*outputs.split())
        except OSError as error:
            _say(f"{COPIED}: {error.filename or 'stdout'}: {error.strerror}")
    try:
        os.execv(command[0], command)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
    return _NOT_EXECUTABLE


def replace_outputs(pid: str, *inodes: str) -> None:
    """Replace stdout and stderr, which are nsys' pipes, by those of process `pid`.

    nsys 2023.4.4 keeps in the report what it reads from its pipes. A terminal does not become the
    controlling terminal. Raises OSError, and leaves both as they are, where one cannot be opened,
    or where this PID namespace has another process of that number.
    """
    opened = []
    for number, inode in enumerate(inodes, 1):
        path = f"/proc/{pid}/fd/{number}"
        opened.append(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY))
        if os.fstat(opened[-1]).st_ino != int(inode):
            raise OSError(errno.ESRCH, "it is of another process", path)
    for number, descriptor in enumerate(opened, 1):
        os.dup2(descriptor, number)


def _say(text: str) -> None:
    print(f"profile.py: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
