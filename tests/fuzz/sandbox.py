"""Run a program where it can change nothing: read-only files, no devices, no network, no sockets.

A fuzzed `--output /dev/NAME` replaced that device when root ran it. Here it cannot: the program
runs in namespaces of its own (man 7 namespaces), in which each mounted file system is read-only,
/tmp, /run and /dev are empty ones, and /dev holds five devices that nobody can replace. A clone
below /tmp is mounted there again, read-only.

    python -m tests.fuzz.sandbox python -c 'open("/etc/x", "w")'
"""

import ctypes
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = Path("/tmp/work")
"""The working directory of the program: in a file system of its own, which ends with it."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNT, _NEW_USER, _NEW_PID, _NEW_NET, _NEW_IPC = (1 << bit for bit in (17, 28, 29, 30, 27))
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 1 << 12, 1 << 14, 1 << 18, 2
_MOUNT_SETATTR = 442  # the same number on every architecture since Linux 5.12
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_DEVICES = ("null", "zero", "full", "random", "urandom")
_EMPTY = ("/run", "/var/run", "/dev/shm")


class UnavailableError(Exception):
    """This machine allows no namespaces to this user."""


def _call(name: str, *words: object) -> None:
    if getattr(_LIBC, name)(*words):
        number = ctypes.get_errno()
        raise UnavailableError(f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    words = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    _call("mount", *words)


def enter() -> None:
    """Put this process into the sandbox. Raises UnavailableError where that is not allowed."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEW_USER | _NEW_MOUNT | _NEW_PID | _NEW_NET | _NEW_IPC)
    # The kernel takes a gid_map of a user without rights only after this (user_namespaces(7)).
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    # Else our mounts would reach the namespace of the machine, where systemd shares `/`.
    _mount("none", "/", flags=_RECURSIVE | _PRIVATE)
    _make_read_only("/")
    _empty("/tmp")
    _make_devices()
    for folder in _EMPTY:
        if Path(folder).is_dir() and not Path(folder).is_symlink():
            _empty(folder)
    WORK.mkdir()


def _make_read_only(path: str) -> None:
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    _call("syscall", _MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, attributes, size)


def _empty(folder: str) -> None:
    """Mount an empty file system on the folder, with our programs, read-only, if they lie in it.

    A clone below /tmp is reached by a descriptor that was opened before /tmp was hidden.
    """
    every = {ROOT, *(Path(place) for place in (sys.prefix, sys.base_prefix))}
    inside = sorted(
        path for path in every | {p.resolve() for p in every} if path.is_relative_to(folder)
    )
    opened = {path: os.open(path, os.O_PATH) for path in inside}
    if any(path in (Path(folder), WORK) for path in inside):
        raise UnavailableError(f"{folder} and {WORK} are the sandbox's own")
    _mount("tmpfs", folder, "tmpfs")
    for path, descriptor in opened.items():
        if not path.exists():
            path.mkdir(parents=True)
            _mount(f"/proc/self/fd/{descriptor}", str(path), flags=_BIND | _RECURSIVE)
            _make_read_only(str(path))
        os.close(descriptor)


def _make_devices() -> None:
    kept = Path("/tmp/devices")
    kept.mkdir()
    for name in _DEVICES:
        (kept / name).touch()
        _mount(f"/dev/{name}", str(kept / name), flags=_BIND)
    _mount("tmpfs", "/dev", "tmpfs")
    for name in _DEVICES:
        Path("/dev", name).touch()
        _mount(str(kept / name), f"/dev/{name}", flags=_BIND)
        _call("umount2", str(kept / name).encode(), _DETACH)
    Path("/dev/shm").mkdir()
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        Path("/dev", name).symlink_to(f"/proc/self/fd{target}")


def list_escapes() -> list[str]:
    """Return what this process could change outside of the sandbox; empty in the sandbox."""
    checks: dict[str, Callable[[], object]] = {
        "the project": lambda: (ROOT / ".escape").touch(),
        "the home": lambda: (Path.home() / ".escape").touch(),
        "/etc": lambda: Path("/etc/.escape").touch(),
        "/var/tmp": lambda: Path("/var/tmp/.escape").touch(),
        "a setting of the kernel": lambda: _open_to_write("/proc/sys/kernel/core_pattern"),
        "/sys": lambda: _open_to_write("/sys/kernel/mm/transparent_hugepage/enabled"),
        "a device": _replace_device,
        "the network": lambda: socket.create_connection(("127.0.0.1", 1), 1),
    }
    escapes = [name for name, change in checks.items() if _works(change)]
    others = {path.name for path in Path("/dev").iterdir() if path.is_block_device()}
    sockets = [path for path in ("/var/run/docker.sock", "/run/docker.sock") if Path(path).exists()]
    return [*escapes, *sorted(others), *sockets]


def _open_to_write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _replace_device() -> None:
    draft = Path("/dev/.escape")
    draft.touch()
    draft.replace("/dev/full")


def _works(change: Callable[[], object]) -> bool:
    try:
        change()
    except OSError:
        return False
    return True


def run_inside(program: Callable[[], int]) -> int:
    """Run the function in a sandbox of its own, after a check that it is tight; its exit code."""
    child = os.fork()
    if not child:
        code = 125
        try:
            enter()
            code = _run_first(program)
        except UnavailableError as error:
            print(f"no sandbox: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run_first(program: Callable[[], int]) -> int:
    """Run the function in the new process namespace, whose first process is the next child."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 124
    try:
        if escapes := list_escapes():
            print(f"the sandbox leaks: {', '.join(escapes)}", file=sys.stderr)
        else:
            os.chdir(WORK)
            os.environ |= {"HOME": str(WORK), "TMPDIR": "/tmp"}
            code = program()
            sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    argv = sys.argv[1:]

    def execute() -> int:
        os.execvp(argv[0], argv)

    sys.exit(run_inside(execute))
