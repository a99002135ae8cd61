"""What job.py takes from a host, a pod or a directory: regular files of expected names."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from job_files import unpack
from job_state import RefusedError

from tests.unit.agent.job_agent import agent, ended, fake_nsys, spec


@pytest.fixture
def nsys(tmp_path: Path) -> Path:
    return fake_nsys(tmp_path)


def test_a_report_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    archive, to = tmp_path / "a.tar", tmp_path / "to"
    to.mkdir()
    (tmp_path / "rank0.h.nsys-rep").write_bytes(bytes(10**6))
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "rank0.h.nsys-rep", "rank0.h.nsys-rep")
    archive.write_bytes(archive.read_bytes()[:500_000])
    code, _, said = agent("unpack", str(archive), str(to))
    assert code == 3
    assert "incomplete" in said
    assert not list(to.glob("*.nsys-rep"))
    assert not archive.exists()


def regular(name: str, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.mode, member.size = mode, 6
    return member, b"report"


def special(name: str, kind: bytes, to: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member, b""


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """A run directory, beside a file that nothing may change."""
    (tmp_path / "victim").write_text("own")
    (tmp_path / "to").mkdir()
    return tmp_path / "to"


HOSTILE = {
    "a place elsewhere": regular("../rank0.h.nsys-rep"),
    "an absolute place": regular("/tmp/rank0.h.nsys-rep"),
    "a deeper place": regular("a/rank0.h.nsys-rep"),
    "a hidden file": regular(".rank0.h.nsys-rep"),
    "an option": regular("-rank0.h.nsys-rep"),
    "a line break": regular("rank0\nh.nsys-rep"),
    "a C1 control": regular("rank0\x9bh.nsys-rep"),
    "a line separator": regular("rank0\u2028h.nsys-rep"),
    "text to the left": regular("rank0\u202eh.nsys-rep"),
    "no UTF-8": regular("rank0\udcffh.nsys-rep"),
    "a run record": regular("run.json"),
    "a page": regular("page.html"),
    "a program": regular("suid-root-shell", 0o4755),
    "an export from a host": regular("rank0.h.sqlite"),
    "a link": special("rank1.h.nsys-rep", tarfile.SYMTYPE, "../victim"),
    "a hard link": special("rank1.h.nsys-rep", tarfile.LNKTYPE, "../victim"),
    "a device": special("rank1.h.nsys-rep", tarfile.CHRTYPE),
    "a pipe": special("rank1.h.nsys-rep", tarfile.FIFOTYPE),
    "a linked folder": special("attempt-1", tarfile.SYMTYPE, ".."),
}


def sparse(name: str, size: int) -> tuple[tarfile.TarInfo, bytes]:
    """512 bytes that tell a file of so many."""
    member = tarfile.TarInfo(name)
    member.size = 512
    real = str(size)
    member.pax_headers = {
        **{"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": f"0,512,{real},0"},
        **{"GNU.sparse.size": real, "GNU.sparse.name": name},
    }
    return member, bytes(512)


def sized(name: str, size: str) -> tuple[tarfile.TarInfo, bytes]:
    member, content = regular(name)
    member.pax_headers = {"size": size}
    return member, content


@pytest.mark.parametrize(
    "member",
    [
        sparse("rank0.h.nsys-rep", 1 << 60),
        sized("rank0.h.nsys-rep", "99999999999999999999"),
        sized("rank0.h.nsys-rep", "-1024"),
    ],
    ids=["sparse", "huge", "negative"],
)
def test_an_archive_with_a_false_size_is_refused(
    to: Path, tmp_path: Path, member: tuple[tarfile.TarInfo, bytes]
) -> None:
    """One of 10^20 bytes took tarfile for ever, one of 2^60 would have filled the disk."""
    archive = packed(tmp_path / "a.tar", member, regular("rank1.h.nsys-rep"))
    code, _, said = agent("unpack", str(archive), str(to))
    assert code == 3
    assert len(said.splitlines()) == 1
    assert all(path.stat().st_size <= 10_240 for path in to.iterdir())


def test_an_archive_with_a_size_that_is_no_number_is_no_traceback(to: Path, tmp_path: Path) -> None:
    """Versions of Python read it as 0 bytes, or raise ValueError."""
    archive = packed(tmp_path / "a.tar", sized("rank0.h.nsys-rep", ""))
    code, _, said = agent("unpack", str(archive), str(to))
    assert code in (0, 3)
    assert "Traceback" not in said


@pytest.mark.parametrize("member", HOSTILE.values(), ids=HOSTILE)
def test_an_archive_brings_reports_only(
    to: Path, tmp_path: Path, member: tuple[tarfile.TarInfo, bytes]
) -> None:
    good = (regular("rank0.h.nsys-rep", 0o6777), regular("attempt-1/rank0.h.qdstrm"))
    archive = packed(tmp_path / "a.tar", member, *good)
    with pytest.raises(RefusedError, match="which is not a report") as refusal:
        unpack(archive, to)
    assert refusal.value.code == 3
    names = {p.relative_to(to).as_posix() for p in to.rglob("*") if not p.is_dir()}
    assert names == {"rank0.h.nsys-rep", "attempt-1/rank0.h.qdstrm"}
    assert (to / "rank0.h.nsys-rep").stat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "victim").read_text() == "own"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["to", "victim"]


def test_a_pod_brings_its_exports_too(to: Path, tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.tar", regular("rank0.h.sqlite"), regular("rank0.h.nsys-rep"))
    assert agent("unpack", "--exports", str(archive), str(to))[0] == 0
    assert {p.name for p in to.iterdir()} == {"rank0.h.sqlite", "rank0.h.nsys-rep"}


def test_links_that_wait_for_a_report_are_replaced(to: Path, tmp_path: Path) -> None:
    (to / "rank0.h.nsys-rep").symlink_to("../victim")
    agent("unpack", str(packed(tmp_path / "a.tar", regular("rank0.h.nsys-rep"))), str(to))
    assert (to / "rank0.h.nsys-rep").read_text() == "report"
    assert (tmp_path / "victim").read_text() == "own"


def test_what_rsync_brought_is_judged_alike(to: Path, tmp_path: Path) -> None:
    (to / ".fetch").symlink_to("..")
    assert agent("stage", str(to))[0] == 0
    stage = to / ".fetch"
    assert not stage.is_symlink()
    (stage / "rank0.h.nsys-rep").write_text("report")
    (stage / "rank0.h.nsys-rep").chmod(0o6755)
    (stage / "rank1.h.nsys-rep").symlink_to("../../victim")
    (stage / ".partial").mkdir()
    (stage / ".partial" / "rank2.h.nsys-rep").write_text("half")
    code, _, said = agent("adopt", str(to))
    assert code == 3
    assert "'rank1.h.nsys-rep', which is not a report" in said
    assert [(p.name, p.stat().st_mode & 0o7777) for p in to.iterdir()] == [
        ("rank0.h.nsys-rep", 0o600)
    ]


def test_a_directory_is_copied_without_its_links(to: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    (job / "attempt-1").mkdir(parents=True)
    (job / "rank0.h.nsys-rep").write_text("report")
    (job / "attempt-1" / "rank0.h.qdstrm").write_text("stream")
    (job / "rank1.h.nsys-rep").symlink_to("../victim")
    (job / "attempt-2").symlink_to("..")
    os.mkfifo(job / "rank2.h.nsys-rep")
    assert agent("copy", str(job), str(to))[0] == 0
    names = sorted(p.relative_to(to).as_posix() for p in to.rglob("*") if p.is_file())
    assert names == ["attempt-1/rank0.h.qdstrm", "rank0.h.nsys-rep"]


@pytest.mark.parametrize("name", ["job.log", "job.lock", "job.stop"])
def test_a_link_in_a_files_place_is_not_followed(
    tmp_path: Path, to: Path, nsys: Path, name: str
) -> None:
    (to / name).symlink_to("../victim")
    _, begun, said = agent("start", str(to), stdin=spec(nsys, "sleep", "1"))
    state = json.loads(begun)
    if name != "job.stop":  # which the supervisor reads, and does not write
        assert state["state"] == "lost", said
        assert name in state["reason"]
        assert "symbolic links" in state["reason"]
    agent("stop", str(to))
    assert (tmp_path / "victim").read_text() == "own"


def test_a_job_and_its_files_are_its_users(tmp_path: Path, nsys: Path) -> None:
    job = tmp_path / "job"
    assert agent("start", str(job), stdin=spec(nsys, "true"))[0] == 0
    ended(job)
    assert job.stat().st_mode & 0o777 == 0o700
    modes = {p.name: p.stat().st_mode & 0o777 for p in job.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_another_users_job_is_refused(tmp_path: Path, nsys: Path) -> None:
    job, link = tmp_path / "job", tmp_path / "24"
    agent("start", str(job), stdin=spec(nsys, "true"))
    ended(job)
    link.symlink_to(job.name)
    assert agent("status", str(link))[0] == 0
    try:
        os.lchown(link, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can make a directory of another user")
    assert "is another user's link" in agent("status", str(link))[2]
    os.chown(job, 65534, 65534)
    for verb in ("status", "stop", "logs", "names", "remove"):
        code, _, said = agent(verb, str(job))
        assert code == 2
        assert "belongs to another user" in said
