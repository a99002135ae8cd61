"""compare with several runs a side, as a user types it."""

import shutil
from pathlib import Path

import pytest

from tests.invoked import invoke
from tests.unit.analysis.compare.test_compare import stretched
from tests.unit.analysis.scenarios import Training

SLOWER = {"a": 1.0, "b": 1.02, "c": 0.99, "d": 1.10, "e": 1.12, "f": 1.09}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run each of SLOWER, so many times as slow as the first."""
    folder = tmp_path_factory.mktemp("runs")
    for name, factor in SLOWER.items():
        (folder / name).mkdir()
        recording = Training(ranks=2, steps=8, layers=10).record()
        stretched(recording, factor).save(folder / name / "rank0.h.sqlite")
    return folder


def sides(runs: Path, base: str, new: str) -> list[str]:
    return [
        *(f"--base={runs / name}" for name in base),
        *(f"--new={runs / name}" for name in new),
    ]


def test_runs_of_a_slower_program_fail_the_gate(runs: Path) -> None:
    done = invoke("compare", *sides(runs, "abc", "def"), directory=runs)
    assert done.returncode == 8
    assert "3 and 3 runs, which differ by 1.5 %" in done.stdout
    error = "error: the new side is slower than allowed. The kernels that changed are in"
    assert error in done.stderr
    assert "1.5 %" not in done.stderr
    assert invoke("compare", *sides(runs, "ab", "c"), directory=runs).returncode == 0


@pytest.mark.further
def test_one_run_a_side_says_what_is_assumed(runs: Path) -> None:
    done = invoke("compare", *sides(runs, "a", "f"), directory=runs)
    assert done.returncode == 0
    assert "one run a side: runs of one program are assumed to differ by 3.0 %" in done.stdout
    for less in ("--spread=2%", "--set=COMPARE_SPREAD=2%"):
        done = invoke("compare", *sides(runs, "a", "f"), less, directory=runs)
        assert done.returncode == 8


@pytest.mark.further
def test_undecided_is_told_apart_and_may_fail(runs: Path) -> None:
    done = invoke("compare", *sides(runs, "a", "f"), directory=runs)
    assert done.stdout.startswith("step: undecided, +9.")
    assert "note: undecided, which passes (exit code 0); --require-decision" in done.stderr
    done = invoke("compare", *sides(runs, "a", "f"), "--require-decision", directory=runs)
    assert done.returncode == 8
    assert done.stdout.startswith("step: undecided, +9.")
    assert "error: the comparison is undecided. 3 runs a side would tell" in done.stderr
    done = invoke("compare", *sides(runs, "a", "b"), "--require-decision", directory=runs)
    assert done.returncode == 0


def test_what_cannot_be_compared_is_refused(runs: Path, tmp_path: Path) -> None:
    done = invoke("compare", *sides(runs, "aa", "d"), directory=runs)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--base names a run twice" in done.stderr
    (tmp_path / "link").symlink_to(runs / "d")
    for words in (sides(runs, "ad", "bd"), (*sides(runs, "d", ""), f"--new={tmp_path}/link")):
        done = invoke("compare", *words, directory=runs)
        assert (done.returncode, done.stdout) == (2, "")
        assert "are one run: " in done.stderr.splitlines()[-1]
    done = invoke("compare", *sides(runs, "a", "d"), "--spread=wide", directory=runs)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--spread 'wide' is not understood. Use a percentage" in done.stderr
    done = invoke("compare", *sides(runs, "a", "d"), "--set=COMPARE_SPREAD=wide", directory=runs)
    assert (done.returncode, done.stdout) == (2, "")
    assert "COMPARE_SPREAD" in done.stderr
    done = invoke("compare", *sides(runs, "", "d"), "--base=s3:///x.sqlite", directory=runs)
    assert done.returncode == 6
    assert "s3:///x.sqlite" in done.stderr
    empty = tmp_path / "empty"
    shutil.copytree(runs / "b", empty)
    (empty / "rank0.h.sqlite").write_bytes(b"")
    done = invoke("compare", *sides(runs, "a", "d"), f"--base={empty}", directory=runs)
    assert (done.returncode, done.stdout) == (6, "")
    assert "Traceback" not in done.stderr
