"""Unpacked reports: bounded in size, and removed when the process that unpacked was killed."""

import gzip
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files import temporary
from gpu_profile.command import Command
from gpu_profile.errors import ReportError
from tests.invoked import invoke

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
DIE = (
    "import os, signal; from gpu_profile.analysis.store.files.temporary import TemporaryFolder;"
    "folder = TemporaryFolder(); open(folder.name + '/report', 'w').close();"
    "os.kill(os.getpid(), signal.SIGKILL)"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def age(path: Path) -> None:
    old = time.time() - 2 * temporary.YOUNGEST_S
    os.utime(path, (old, old))


def test_the_folder_of_a_killed_process_is_removed(folder: Path) -> None:
    process.run(Command(argv=(sys.executable, "-c", DIE), env={"TMPDIR": str(folder)}))
    (left,) = folder.iterdir()
    assert temporary.sweep() == 0, "it could be one that is being made"
    age(left)
    assert temporary.sweep() == 1
    assert list(folder.iterdir()) == []


def test_folders_in_use_links_and_others_are_left(folder: Path) -> None:
    mine = temporary.TemporaryFolder()
    other = folder / "gpu-profile-other"
    other.mkdir()
    link = folder / f"{temporary.PREFIX}link"
    link.symlink_to(other)
    for path in (Path(mine.name), other):
        age(path)
    assert temporary.sweep() == 0
    mine.cleanup()
    assert sorted(folder.iterdir()) == [other, link]


def test_the_next_start_removes_it(folder: Path) -> None:
    process.run(Command(argv=(sys.executable, "-c", DIE), env={"TMPDIR": str(folder)}))
    (left,) = folder.iterdir()
    age(left)
    report = f"--report={DATA}/rank0.sqlite.gz"
    done = invoke("stats", report, "--table=nvtx_sum", directory=folder, TMPDIR=str(folder))
    assert done.returncode == 0, done.stderr
    assert not left.exists()


def test_a_gz_that_unpacks_to_too_much_is_refused(folder: Path) -> None:
    bomb = folder / "rank0.sqlite.gz"
    bomb.write_bytes(gzip.compress(b"SQLite format 3\0" + bytes(30_000_000)))
    assert bomb.stat().st_size < 40_000
    with pytest.raises(ReportError, match=r"unpacks to more than 0\.02 GB"):
        Database.open(bomb, most_bytes=20_000_000)
    assert list(folder.iterdir()) == [bomb]


@pytest.mark.parametrize("verb", ["stats", "scrub", "timeline", "diagnose"])
def test_the_size_is_a_setting_of_every_verb(folder: Path, verb: str) -> None:
    report = f"--report={DATA}/rank0.sqlite.gz"
    none = invoke(verb, report, "--set=UNPACK_LIMIT_GB=0", directory=folder, TMPDIR=str(folder))
    assert none.returncode == 6
    assert "unpacks to more than 0 GB. Set UNPACK_LIMIT_GB higher" in none.stderr
    assert not list(folder.rglob("*.sqlite*"))


def test_a_size_is_a_number(folder: Path) -> None:
    report = f"--report={DATA}/rank0.sqlite.gz"
    refused = invoke("stats", report, "--set=UNPACK_LIMIT_GB=-1", directory=folder)
    assert refused.returncode == 2
    assert "UNPACK_LIMIT_GB" in refused.stderr


def test_a_folder_with_credentials_lies_in_memory_and_is_swept() -> None:
    """After kill -9 of a build, /dev/shm held the registry's password for good."""
    if not os.access(temporary.MEMORY, os.W_OK):
        pytest.skip("no /dev/shm")
    code = "import os; from gpu_profile.analysis.store.files.temporary import TemporaryFolder as F;"
    code += "f = F(memory=True); print(f.name, flush=True); os.kill(os.getpid(), 9)"
    killed = process.run(Command(argv=(sys.executable, "-c", code)))
    folder = Path(killed.stdout.strip())
    assert str(folder.parent) == temporary.MEMORY
    os.utime(folder, (1, 1))
    deadline = time.monotonic() + 60
    while folder.exists():  # another process that sweeps may hold its lock, and removes it then
        assert time.monotonic() < deadline
        temporary.sweep()


NO_LOCKS = """
import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # as on Windows: an import of it fails
from gpu_profile.analysis.store.files.temporary import TemporaryFolder, sweep
from gpu_profile.verbs.reading import open_run
with TemporaryFolder() as folder:
    print(bool(folder), sweep())
"""


@pytest.mark.further
def test_a_machine_without_file_locks_reads_reports_too(folder: Path) -> None:
    done = process.run(Command(argv=(sys.executable, "-c", NO_LOCKS), env={"TMPDIR": str(folder)}))
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr
    assert list(folder.iterdir()) == []
