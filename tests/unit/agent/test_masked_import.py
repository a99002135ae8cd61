"""A recording that nsys left in the temporary folder: moved, or named where it lies."""

import os
from pathlib import Path

import pytest
from masked_import import Recorded
from recorded_env import DISCARDING


@pytest.fixture
def left(tmp_path: Path) -> Path:
    path = tmp_path / "nsys-report-1a2b.qdstrm"
    path.write_bytes(b"recorded")
    return path


def rescue(left: Path, target: Path) -> None:
    recorded = Recorded("nsys", (DISCARDING,), os.environ)
    with left.open("r+b") as stream:
        recorded.keeper.streams.append(stream)
        recorded.rescue(target)


def test_it_is_moved_and_readable_by_its_owner_alone(left: Path, tmp_path: Path) -> None:
    target = tmp_path / "rank0.vm.qdstrm"
    rescue(left, target)
    assert target.read_bytes() == b"recorded"
    assert target.stat().st_mode & 0o777 == 0o600
    assert not left.exists()


def test_where_no_copy_can_be_made_it_stays_and_is_named(
    left: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rescue(left, tmp_path / "absent" / "rank0.vm.qdstrm")
    assert left.read_bytes() == b"recorded"
    said = capsys.readouterr().err
    assert f"the recording is {left}: {tmp_path}/absent takes no copy: No such file" in said
