"""Open a report by its path, or by a URL that is downloaded to a temporary folder."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files.gzip_file import MOST_BYTES
from gpu_profile.analysis.store.files.temporary import TemporaryFolder
from gpu_profile.errors import ReportError, ToolError
from gpu_profile.s3.bucket import BucketError, download, list_names

_FILE_NAME = re.compile(r"[^.-].{0,240}")
_EXPORTS = (".sqlite", ".sqlite.gz")
_ADVICE = "Check the address and the access to it"


def is_url(place: str) -> bool:
    return "://" in place


def list_bucket_reports(url: str) -> list[str]:
    """Return the reports right below `s3://team/baselines/main`, or the URL that names a report.

    Raises ReportError where there is none.
    """
    if not url.startswith("s3://") or "." in url.rpartition("/")[2]:
        return [url]
    try:
        names = sorted(name for name in list_names(url) if name.endswith(_EXPORTS))
    except BucketError as error:
        raise ReportError(f"{url} cannot be read: {error}", _ADVICE) from error
    packed = {f"{name}.gz" for name in names}
    if not names:
        raise ReportError(f"{url} holds no report", "Upload the .sqlite files of a run")
    return [f"{url.rstrip('/')}/{name}" for name in names if name not in packed]


@contextmanager
def open_report(place: str, most_bytes: int = MOST_BYTES) -> Iterator[Database]:
    """Open the report at a path or URL.

    Raises ReportError if there is none, and ToolError if the URL needs a package that is not
    installed.
    """
    if not is_url(place):
        with Database.open(place, most_bytes) as database:
            yield database
        return
    name = place.rpartition("/")[2]
    if not _FILE_NAME.fullmatch(name) or not name.isprintable():
        raise ReportError(f"{place} cannot be read: {name!r} is not a name of a report", _ADVICE)
    with TemporaryFolder() as folder:
        local = Path(folder) / name
        (_from_s3 if place.startswith("s3://") else _from_elsewhere)(place, local)
        with Database.open(local, most_bytes) as database:
            yield database


def _from_s3(url: str, local: Path) -> None:
    """Download with the credentials and endpoint that boto3 finds on this machine."""
    try:
        download(url, local)
    except BucketError as error:
        raise ReportError(f"{url} cannot be read: {error}", _ADVICE) from error


def _from_elsewhere(url: str, local: Path) -> None:
    try:
        import fsspec  # type: ignore[import-untyped,unused-ignore]

        with fsspec.open(url, "rb") as remote, local.open("wb") as file:
            shutil.copyfileobj(remote, file, 1 << 22)
    except ImportError as error:
        if error.name is None:  # fsspec's own sentence names the packages
            what, hint = f"{url} cannot be read: {error}", "Install them, or download the report"
            raise ToolError(what, hint) from error
        what = f"{url} needs {error.name} here"
        raise ToolError(what, f"Run: pip install {error.name}") from error
    except (OSError, ValueError) as error:
        raise ReportError(f"{url} cannot be read: {error}", _ADVICE) from error
