"""The files by which record_window.py asks ranks for a window. Python 3.8, stdlib only.

They lie in the folder `windows` of the run directory, which all agents of a machine see:

    armed-rank0.host.json     an agent that can record; it holds a lock on the file while it lives,
                              and says its nsys and the session there, {} for torch.profiler
    request-3.json            {"start": 1795.2, "seconds": 5, "names": […]}, times since the epoch
    answer-3-rank0.host.json  what became of window 3: {"state": "done", "report": "rank0.host.3.…"}
    steps-rank0.host-1234     how many steps a process with marks has begun, and whether it WAITS or
                              TRACES: two numbers of 8 bytes
    marks-rank0.host          1 byte: MARK from the request of a window to its end, WAIT while nsys
                              collects the rest, TRACE while the program records itself, otherwise
                              SLEEP
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER = "windows"
DONE, LOST = "done", "lost"
"""The last states of a window. Before them it is `accepted`, then `recording`."""
SLEEP, MARK, WAIT, TRACE = 0, 1, 2, 3
WAITS, TRACES = 1, 2
_SHOWN = struct.Struct("qq")
_REQUEST = re.compile(r"request-(\d{1,6})\.json")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def write(path: Path, facts: Mapping[str, Any]) -> None:
    """Write a file by rename, mode 0600: a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK
    with os.fdopen(os.open(str(draft), flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    draft.replace(path)


def read(path: Path) -> dict[str, Any]:
    """Return the facts of a file; empty if it is missing or damaged."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def name_host() -> str:
    """Return this machine's or container's name as reports have it: `node1`."""
    return re.sub(r"[^\w.-]", "_", platform.node().partition(".")[0]) or "localhost"


def list_requests(folder: Path) -> list[int]:
    """Return the numbers of the requests so far, sorted."""
    matches = (_REQUEST.fullmatch(path.name) for path in folder.glob("request-*.json"))
    return sorted(int(match[1]) for match in matches if match)


def request_file(folder: Path, number: int) -> Path:
    return folder / f"request-{number}.json"


def answer_file(folder: Path, number: int, name: str) -> Path:
    """Return the file of one agent's answer. `name`: of the rank's reports, `rank0.host`."""
    return folder / f"answer-{number}-{name}.json"


def read_steps(folder: Path, name: str) -> dict[str, int]:
    """Return how many steps each process of a rank has begun, by its file. Empty without marks."""
    shown = _read_shown(folder, name).items()
    return {file: begun for file, (begun, _) in shown if begun > 0}


def list_doing(folder: Path, name: str, what: int) -> set[str]:
    """Return the living processes of a rank, by their files, in the state WAITS or TRACES."""
    shown = _read_shown(folder, name).items()
    return keep_living(file for file, (_, does) in shown if does == what)


def keep_living(files: Iterable[str]) -> set[str]:
    """Return those of `steps-rank0.host-1234` whose process lives."""
    return {file for file in files if Path("/proc", file.rpartition("-")[2]).exists()}


def _read_shown(folder: Path, name: str) -> dict[str, tuple[int, int]]:
    shown = {}
    for path in folder.glob(f"steps-{name}-*"):
        with contextlib.suppress(OSError, struct.error):
            begun, does = _SHOWN.unpack(path.read_bytes())
            shown[path.name] = begun, does
    return shown


def tell_marks(folder: Path, name: str, what: int) -> None:
    """Tell the processes of a rank, which map the file when they start, what to do."""
    path = folder / f"marks-{name}"
    descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
    try:
        os.pwrite(descriptor, bytes([what]), 0)
    finally:
        os.close(descriptor)


def lock(path: Path) -> int | None:
    """Create and lock a file. Returns its descriptor, or None while another process holds it.

    The kernel drops a lock when its process ends. A process id could be in use again. Where the
    file system has no locks, every process gets one.
    """
    descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
    if _try_lock(descriptor, shared=False) is not False:
        return descriptor
    os.close(descriptor)
    return None


def _try_lock(descriptor: int, *, shared: bool) -> bool | None:
    """Return whether a lock was got; None where the file system has none, as Lustre's default."""
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def lock_patiently(path: Path, within_s: float) -> int | None:
    """Lock a file that others hold for a moment, as list_armed does. None after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        descriptor = lock(path)
        if descriptor is not None or time.monotonic() >= deadline:
            return descriptor
        time.sleep(0.01)


def list_armed(folder: Path) -> list[str]:
    """Return the names of the ranks whose agents live: `rank0.host`.

    Without locks an agent that was killed counts as living.
    """
    killed = list_killed_agents(folder)
    files = sorted(folder.glob("armed-*.json"))
    return [name_armed(path) for path in files if path not in killed and path.exists()]


def list_killed_agents(folder: Path) -> list[Path]:
    """Return the files `armed-….json` whose agents were killed."""
    return [path for path in sorted(folder.glob("armed-*.json")) if _is_of_killed(path)]


def name_armed(path: Path) -> str:
    return path.name[len("armed-") : -len(".json")]


def _is_of_killed(path: Path) -> bool:
    try:
        descriptor = os.open(str(path), os.O_RDWR | _NO_LINK)
    except FileNotFoundError:
        return False
    try:
        return bool(_try_lock(descriptor, shared=True))
    finally:
        os.close(descriptor)
