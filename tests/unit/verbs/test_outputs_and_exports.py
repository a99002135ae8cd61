"""Where verbs write: exports whole or not at all, and a comparison to standard output."""

import os
import shutil
from pathlib import Path

import pytest

from tests.further import further
from tests.invoked import invoke
from tests.nsys_script import HELP
from tests.unit.verbs.small_report import make_small_report

EXPORT = """#!/bin/sh
case "$*" in *--help*) cat '{help}'; exit ;; esac
for word; do case $word in --output=*) out=${{word#--output=}} ;; esac; done
echo "$out" >>'{place}/exports'
cp '{place}/report.sqlite' "$out"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an nsys that exports, and a recording in `run`."""
    (tmp_path / "report.sqlite").write_bytes(make_small_report())
    (tmp_path / "nsys").write_text(EXPORT.format(help=HELP, place=tmp_path))
    (tmp_path / "nsys").chmod(0o755)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank0.h.nsys-rep").write_text("recording")
    return tmp_path


def test_an_export_appears_by_rename_and_once(place: Path) -> None:
    for _ in range(2):
        done = invoke("stats", "--report=run", directory=place, NSYS=str(place / "nsys"))
        assert done.returncode == 0, done.stderr
    (output,) = (place / "exports").read_text().splitlines()
    assert Path(output).parent.parent == place / "run"
    assert not Path(output).parent.exists()
    assert {path.name for path in (place / "run").iterdir()} == {
        *("rank0.h.nsys-rep", "rank0.h.sqlite")
    }


@pytest.mark.parametrize("size", [0, further(100), 20_000])
def test_an_export_that_was_cut_short_is_made_again(place: Path, size: int) -> None:
    whole = (place / "report.sqlite").read_bytes()
    (place / "run" / "rank0.h.sqlite").write_bytes(whole[:size])
    for report in ("run", "run/rank0.h.nsys-rep"):
        done = invoke("stats", f"--report={report}", directory=place, NSYS=str(place / "nsys"))
        assert done.returncode == 0, done.stderr
    assert (place / "run" / "rank0.h.sqlite").read_bytes() == whole


def test_an_export_that_fails_leaves_nothing(place: Path) -> None:
    (place / "report.sqlite").write_bytes(b"half of it")
    done = invoke("stats", "--report=run", directory=place, NSYS=str(place / "nsys"))
    assert done.returncode == 6, done.stderr
    assert [path.name for path in (place / "run").iterdir()] == ["rank0.h.nsys-rep"]


def test_an_empty_recording_is_named_so(place: Path) -> None:
    (place / "run" / "rank0.h.nsys-rep").write_bytes(b"")
    refused = invoke("stats", "--report=run", directory=place, NSYS=str(place / "nsys"))
    assert refused.returncode == 6
    assert "rank0.h.nsys-rep is empty: its recording never ended" in refused.stderr
    assert not (place / "exports").exists()


def test_a_recording_of_another_user_is_exported_elsewhere(place: Path) -> None:
    try:
        os.chown(place / "run", 65534, 65534)
    except PermissionError:
        pytest.skip("only root can make a directory of another user")
    done = invoke("stats", "--report=run", directory=place, NSYS=str(place / "nsys"))
    assert done.returncode == 0, done.stderr
    (output,) = (place / "exports").read_text().splitlines()
    assert place / "run" not in Path(output).parents
    assert not Path(output).parent.exists(), "a temporary place ends with the process"
    assert [path.name for path in (place / "run").iterdir()] == ["rank0.h.nsys-rep"]


def test_a_pipe_among_reports_is_passed_by(place: Path) -> None:
    os.mkfifo(place / "run" / "rank1.h.nsys-rep")
    os.mkfifo(place / "run" / "rank2.h.sqlite")
    done = invoke("stats", "--report=run", directory=place, NSYS=str(place / "nsys"))
    assert done.returncode == 0, done.stderr
    refused = invoke("stats", "--report=run/rank1.h.nsys-rep", directory=place)
    assert refused.returncode == 6
    assert "is neither a file nor a directory" in refused.stderr


def test_a_comparison_goes_to_a_stream_as_it_is(place: Path) -> None:
    again = shutil.copy(place / "report.sqlite", place / "again.sqlite")
    words = ("compare", f"--base={place}/report.sqlite", f"--new={again}", "--output=/dev/stdout")
    said = invoke(*words, directory=place)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("step: undecided: ")  # it has four steps


def test_a_mistyped_handle_leaves_no_run(place: Path) -> None:
    (place / "runs").mkdir()
    words = ("fetch", f"--job=host://{place}/nowhere", "--set", f"REPORT_DIR={place}/runs")
    said = invoke(*words, directory=place)
    assert said.returncode == 2, said.stderr
    assert "holds no job" in said.stderr
    assert not list((place / "runs").iterdir())
