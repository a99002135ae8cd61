"""Download a file whose SHA-256 is known, such as an operator's manifest or a helm chart."""

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeVar

from gpu_profile.command import Command, Steps, make_command
from gpu_profile.errors import GpuProfileError, ToolError
from gpu_profile.signals import HungUp

T = TypeVar("T")
_FOLDER = "/tmp/gpu-profile-download.XXXXXX"


def is_url(source: str) -> bool:
    return source.startswith(("https://", "http://"))


def use_pinned(url: str, sha256: str, use: Callable[[str], Steps[T]]) -> Steps[T]:
    """Download `url`, compare its SHA-256, and return what `use` makes of the file's path.

    The file is removed afterwards. Raises ToolError for another file, before `use`.
    """
    folder_result = yield make_command("mktemp", "-d", _FOLDER)
    folder = PurePosixPath(folder_result.stdout.strip() or _FOLDER)
    remove = make_command("rm", "-rf", "--one-file-system", str(folder))
    try:
        file = yield from _fetch_pinned(url, sha256, folder)
        result = yield from use(str(file))
    # Not `finally`: a generator that is closed may not yield there.
    except (GpuProfileError, KeyboardInterrupt, HungUp):
        yield remove
        raise
    yield remove
    return result


def _fetch_pinned(url: str, sha256: str, folder: PurePosixPath) -> Steps[PurePosixPath]:
    """Download `url` into the folder and return the file.

    Raises ToolError if it cannot be had, or is not the file of that SHA-256.
    """
    file = folder / (PurePosixPath(url.partition("?")[0]).name or "file")
    curl = ("curl", "--fail", "--silent", "--show-error", "--location", "--retry", "3")
    download_result = yield make_command(*curl, "--output", str(file), url)
    if download_result.returncode:
        raise ToolError(
            f"{url} cannot be read: {download_result.last_line}", "Name a mirror or a local copy"
        )
    checked = yield Command(argv=("sha256sum", "--check", "--status"), stdin=f"{sha256}  {file}\n")
    if checked.returncode:
        actual = yield make_command("sha256sum", str(file))
        raise ToolError(
            f"{url} has sha256 {actual.stdout.partition(' ')[0]}, expected {sha256}",
            "Somebody changed the file. Compare it with its release before you use it",
        )
    return file
