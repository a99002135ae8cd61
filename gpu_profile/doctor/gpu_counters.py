"""Allow GPU performance counters to users without administrator rights.

NVIDIA's driver decides by a module parameter: https://developer.nvidia.com/ERR_NVGPUCTRPERM
"""

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError
from gpu_profile.remote_host import RemoteHost

FILE = "/etc/modprobe.d/gpu-profile.conf"
LINE = "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"
AFTERWARDS = (
    "It takes effect when the driver is loaded anew: make the initramfs again"
    " (`update-initramfs -u -k all`, or `dracut -f`) and reboot; or, where no program uses a GPU,"
    " unload and load the nvidia modules"
)


def is_root(place: RemoteHost) -> Steps[bool]:
    """Return whether commands run as root on that machine. Raises ToolError if it is away."""
    result = yield place.run("id", "-u")
    return place.checked(result, f"asking {place.host or 'this machine'}").stdout.strip() == "0"


def allow_counters(place: RemoteHost, *, root: bool, file: str = FILE) -> Steps[None]:
    """Write the modprobe file. The loaded driver keeps its setting; AFTERWARDS says what to do."""
    # tee runs under sudo; a shell redirection would be opened by the user's own shell.
    yield from _run_change(
        place.run(*_get_sudo(root), "tee", "--", file, stdin=LINE), place, f"writing {file}"
    )


def restrict_counters(place: RemoteHost, *, root: bool, file: str = FILE) -> Steps[None]:
    """Remove the file that allow_counters wrote. A missing file is no error."""
    yield from _run_change(
        place.run(*_get_sudo(root), "rm", "-f", "--", file), place, f"removing {file}"
    )


def _get_sudo(root: bool) -> tuple[str, ...]:
    return () if root else ("sudo", "--non-interactive")


def _run_change(change: Command, place: RemoteHost, doing: str) -> Steps[None]:
    result: Result = yield change
    if result.returncode:
        hint = (
            "Run it as root there: sudo asks for a password" if "sudo" in result.last_line else ""
        )
        raise ToolError(f"{doing}: {result.last_line}", place.hint(result) or hint)
