"""A recording made here by a real nsys, and the tables that the same nsys prints for it."""

import csv
import io
import sys
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import ANALYSES
from gpu_profile.command import Command, make_command
from gpu_profile.formats.table_formats import to_csv

pytestmark = pytest.mark.nsys

BUSY = """
import pathlib, sys, threading, time
def work():
    for _ in range(40):
        pathlib.Path(sys.argv[1]).write_text("x" * 1000)
        time.sleep(0.001)
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def run(argv: Command) -> None:
    done = process.run(argv)
    assert done.returncode == 0, done.last_line


@pytest.fixture(scope="module")
def report(nsys: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("oracle")
    output = folder / "rank5"
    what = (sys.executable, "-c", BUSY, str(folder / "file"))
    options = ("--trace=osrt,nvtx", "--sample=none", "--cpuctxsw=none", f"--output={output}")
    run(make_command(nsys, "profile", *options, *what, RANK="3", WORLD_SIZE="4"))
    target = f"--output={output}.sqlite"
    run(make_command(nsys, "export", "--type=sqlite", target, f"{output}.nsys-rep"))
    return output.with_suffix(".sqlite")


def test_osrt_sum_is_what_nsys_prints(nsys: str, report: Path) -> None:
    output = report.with_name("table")
    where = ("--force-export=false", "--format=csv", f"--output={output}")
    run(make_command(nsys, "stats", *where, "--report=osrt_sum", str(report)))
    expected = output.with_name("table_osrt_sum.csv").read_text()
    with Database.open(report) as database:
        ours = to_csv(ANALYSES["osrt_sum"].table(database))
    assert _rounded(ours) == _rounded(expected)


def test_a_real_recording_says_its_rank(report: Path) -> None:
    with Database.open(report) as database:
        run_found = run_of([survey_report(database)])
    assert list(run_found.scopes[0].ranks.values()) == [3]
    assert (run_found.ranks.source, run_found.ranks.missing) == ("environment", (0, 1, 2))


def test_a_parquet_folder_of_nsys_says_what_its_sqlite_says(nsys: str, report: Path) -> None:
    folder = report.with_suffix(".parquetdir")
    target = f"--output={folder}"
    run(
        make_command(
            nsys, "export", "--type=parquetdir", target, str(report.with_suffix(".nsys-rep"))
        )
    )
    for name in ("osrt_sum", "nvtx_sum", "cuda_gpu_kern_sum"):
        with Database.open(report) as one, Database.open(folder) as other:
            assert ANALYSES[name].table(other) == ANALYSES[name].table(one)
    with Database.open(folder) as other:
        ranks = run_of([survey_report(other)]).ranks
    # nsys 2023.4 leaves the recorded environment out of Parquet: the name is all there is.
    assert ranks.source in ("environment", "file name")


def _rounded(text: str) -> list[list[object]]:
    """Averages without their last digit: nsys up to 2025 rounded 0.05 up, later ones do not."""
    return [[_number(cell) for cell in row] for row in csv.reader(io.StringIO(text))]


def _number(cell: str) -> object:
    try:
        return pytest.approx(float(cell), abs=0.1001)
    except ValueError:
        return cell
