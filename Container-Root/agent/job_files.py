"""What a job leaves to be fetched: reports, and recordings that wait for an importer."""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

from job_state import WORK, RefusedError

_SUFFIXES = (".nsys-rep", ".qdstrm")


def names(job: Path) -> list[str]:
    """Relative to the job's directory; attempts before a requeue have folders of their own."""
    found = (p.relative_to(job) for p in job.rglob("*") if p.suffix in _SUFFIXES)
    return sorted(path.as_posix() for path in found if path.parts[0] != WORK)


def copy(job: Path, to: Path) -> None:
    """Copy what is to be fetched, each whole or not at all. Onto itself it is no work."""
    if job.resolve() == to.resolve():
        return
    for name in names(job):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        draft = to / f"{name}.part"
        shutil.copy2(job / name, draft)
        draft.replace(to / name)


def pack(job: Path) -> None:
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name in names(job):
            archive.add(str(job / name), name)


def unpack(archive_path: Path, to: Path) -> None:
    """Take regular files only, each to a place below `to`, whole or not at all."""
    try:
        with tarfile.open(archive_path, mode="r|") as archive:
            for member in archive:
                _extract(archive, member, to)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RefusedError(f"what came of it is incomplete: {error}", 3) from None
    finally:
        archive_path.unlink()


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
    target = (to / member.name).resolve()
    source = archive.extractfile(member) if member.isreg() else None
    if source is None or to.resolve() not in target.parents:
        raise RefusedError(f"the archive holds {member.name!r}, which is no report", 3)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(target.name + ".part")
    with draft.open("wb") as file:
        shutil.copyfileobj(source, file)
    draft.replace(target)
