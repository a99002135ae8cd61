"""Run a command, and end whatever it leaves behind, however it ends.

    watched.py [--finally PROGRAM] COMMAND [WORD…]

Three processes: this one holds the write end of a pipe; the watcher, in a session of its own,
reads from it and is the subreaper of the third, the command. Daemons call setsid and lose their
parent, but they stay descendants of the watcher, so it finds them without a list of their names.
If this process ends for any reason (Ctrl-C, SIGTERM, kill -9), the kernel closes the pipe, and the
watcher ends all of its descendants. It does so, too, if the command is killed or leaves daemons.

PROGRAM runs after that and removes what is no process. A Docker Engine that the command started
stays, with its containers.

Exit code: the command's, or 128 and the number of the signal.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

_ENGINE = frozenset({"dockerd", "containerd-shim"})
"""Programs that stay, with all that they started. Linux cuts a name after 15 characters."""
_CLUSTER = frozenset({"containerd"})
"""Stays until PROGRAM has run, which asks it to end its containers."""
_GRACE_S = {signal.SIGTERM: 5.0, signal.SIGKILL: 10.0}
_PR_SET_CHILD_SUBREAPER = 36
"""From <linux/prctl.h>; see prctl(2)."""
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(words: Sequence[str]) -> int:
    """Start the watcher, and wait for its end."""
    read_end, write_end = os.pipe()
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if not received:
            received.append(number)
            os.close(write_end)

    for number in _STOPS:
        signal.signal(number, stop)
    watcher = subprocess.Popen(
        (sys.executable, __file__, "--watch", *words), stdin=read_end, start_new_session=True
    )
    os.close(read_end)
    code = watcher.wait()
    return 128 + received[0] if received else code


def watch(words: Sequence[str]) -> int:
    """Run the command until it ends or standard input is closed; then end its descendants."""
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    program, command = _split_words(words)
    code = _wait(_start(command))
    _end_descendants(_ENGINE | _CLUSTER)
    if program:
        _run_to_end(program)
    _end_descendants(_ENGINE)
    return code


def _split_words(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the program of --finally, or "", and the command."""
    return (words[1], words[2:]) if words[:1] == ["--finally"] else ("", words)


def _start(command: Sequence[str]) -> int:
    # Our standard input is the pipe whose end is the order to stop: the command must not have it.
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return os.posix_spawnp(
        command[0], list(command), os.environ, file_actions=[nothing], setsigdef=_STOPS
    )


def _wait(command: int) -> int:
    """Return the command's exit code; 0 if standard input was closed before its end."""
    wakeup, wakeup_end = os.pipe()
    os.set_blocking(wakeup_end, False)
    # A handler, as an ignored signal writes nothing to the wakeup descriptor.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)
    while True:
        for pid, status in _reap():
            if pid == command:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        readable, _, _ = select.select([0, wakeup], [], [])
        if 0 in readable:
            return 0
        os.read(wakeup, 4096)


def _run_to_end(program: str) -> None:
    """Run PROGRAM, and reap what it ends meanwhile.

    Orphans are zombies until their subreaper waits for them: a PROGRAM that waits for their end
    would wait for ever.
    """
    child = _start([program])
    while child not in [pid for pid, _ in _reap()]:
        time.sleep(0.05)


def _reap() -> Iterator[tuple[int, int]]:
    """Yield process id and status of each child that ended, the orphaned ones included."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _end_descendants(kept: frozenset[str]) -> None:
    """End all descendants but the programs in `kept` and what these started."""
    for number, grace_s in _GRACE_S.items():
        signalled: set[int] = set()
        end = time.monotonic() + grace_s
        while (names := _list_descendants(kept)) and time.monotonic() < end:
            for pid in names.keys() - signalled:
                _tell(f"watched: {number.name} to {names[pid]}, process {pid}")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            signalled |= names.keys()
            time.sleep(0.05)
            list(_reap())


def _tell(line: str) -> None:
    """Write a line to standard error, or to nowhere if its reader was killed, too."""
    try:
        os.write(2, f"{line}\n".encode())
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def _list_descendants(kept: frozenset[str]) -> dict[int, str]:
    """Return process id and name of this process' descendants, from /proc."""
    children: dict[int, dict[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # "PID (NAME) STATE PARENT …"; a name may hold spaces and parentheses.
            head, _, tail = path.read_text(errors="replace").rpartition(")")
            state, parent = tail.split()[:2]
            pid, _, name = head.partition(" (")
            if state != "Z" and name not in kept:
                children.setdefault(int(parent), {})[int(pid)] = name
    descendants: dict[int, str] = {}
    parents = [os.getpid()]
    while parents:
        below = children.get(parents.pop(), {})
        descendants |= below
        parents += below
    return descendants


if __name__ == "__main__":
    sys.exit(watch(sys.argv[2:]) if sys.argv[1] == "--watch" else main(sys.argv[1:]))
