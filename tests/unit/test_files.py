"""Files that appear whole: nothing is followed, nothing but a regular file is replaced."""

import errno
import os
import stat
from pathlib import Path

import pytest

from gpu_profile import files
from gpu_profile.errors import ReportError, SettingsError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_takes_its_place_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    files.write_atomically(tmp_path / "page.html", "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("page.html", "new")]


def write_and_fail(path: Path) -> None:
    with files.open_draft(path) as file:
        file.write(b"half")
        raise ValueError("cut short")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ValueError, match="cut short"):
        write_and_fail(tmp_path / "a")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


def fill_disk(path: Path) -> None:
    with files.open_draft(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_with_the_file_that_it_lacks_room_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as error:
        fill_disk(tmp_path / "page.html")
    assert error.value.filename == str(tmp_path / "page.html")
    assert not [*tmp_path.iterdir()]


def test_a_private_directory_has_private_files(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for name, mode in (("private", 0o700), ("shared", 0o755)):
            (tmp_path / name).mkdir(mode=mode)
            files.write_atomically(tmp_path / name / "a", "x")
            files.open_to_append(tmp_path / name / "log").close()
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "private" / "a") == 0o600
    assert mode_of(tmp_path / "shared" / "a") == 0o644
    assert mode_of(tmp_path / "shared" / "log") == 0o600


def test_a_link_is_replaced_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("own")
    for name in ("page.html", "log"):
        (tmp_path / name).symlink_to("victim")
    files.write_atomically(tmp_path / "page.html", "new")
    for read in (files.open_to_append, files.open_regular, files.read_text):
        with pytest.raises(ReportError, match="is a link or no regular file"):
            read(tmp_path / "log")
    assert (tmp_path / "victim").read_text() == "own"
    assert (tmp_path / "page.html").read_text() == "new"


def test_a_pipe_or_a_device_is_refused_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("fifo", "null"):
        with pytest.raises(SettingsError, match="is not a regular file"):
            files.write_atomically(tmp_path / name, "x")
        for read in (files.open_to_append, files.open_regular):
            with pytest.raises(ReportError, match="no regular file"):
                read(tmp_path / name)
    with pytest.raises(SettingsError, match="is not a regular file"):
        files.write_atomically(Path("/dev/null"), "x")
    assert stat.S_ISFIFO((tmp_path / "fifo").lstat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").lstat().st_mode)


def test_a_text_goes_to_a_stream_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    files.write_output(tmp_path / "fifo", "text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    files.write_output(tmp_path / "plain", "text")
    assert (tmp_path / "plain").read_text() == "text"


def test_what_cannot_be_made_is_one_line() -> None:
    with pytest.raises(SettingsError, match=r"/proc/x\.html cannot be written"):
        files.write_atomically(Path("/proc/x.html"), "x")


def test_a_text_that_is_too_long_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 11)
    with pytest.raises(ReportError, match="more than 10 bytes"):
        files.read_text(tmp_path / "a", 10)
