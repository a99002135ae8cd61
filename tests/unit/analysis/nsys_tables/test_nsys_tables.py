"""Our tables against what nsys 2025.3.1 printed for the same recordings: the same bytes."""

import contextlib
import functools
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import ANALYSES
from gpu_profile.formats.table_formats import to_csv
from tests.unit.analysis.make import make_report, thread
from tests.unit.analysis.synthetic import Rank, Recording

DATA = Path(__file__).parents[3] / "data"
REPORTS = {
    "h200x4-ddp": ("rank0", "rank1", "rank2", "rank3", "all-ranks-one-report"),
    "h200-tables": ("graphs-by-node", "graphs-by-graph", "window"),
}
RECORDED = sorted(
    (DATA / folder / f"{report}.sqlite.gz", path)
    for folder, reports in REPORTS.items()
    for report in reports
    for path in (DATA / folder / "nsys-stats").glob(f"{report}_*.csv*")
)


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[[Path], Database]]:
    """Open a report for all of its tables: what several need is computed once. One is open at a
    time, as RECORDED has a report's tables in a row.
    """
    with contextlib.ExitStack() as stack:

        @functools.lru_cache(maxsize=1)
        def open_report(path: Path) -> Database:
            stack.close()
            return stack.enter_context(Database.open(path))

        yield open_report


@pytest.mark.parametrize(
    ("report", "path"), RECORDED, ids=[path.name.partition(".")[0] for _, path in RECORDED]
)
def test_a_table_is_what_nsys_prints(
    opened: Callable[[Path], Database], report: Path, path: Path
) -> None:
    name = path.name.partition(".")[0].removeprefix(report.name.partition(".")[0] + "_")
    raw = path.read_bytes()
    expected = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    assert to_csv(ANALYSES[name].table(opened(report))) == expected


def test_every_recorded_table_is_compared() -> None:
    assert len(RECORDED) == 11 * 4 + 3 + 6 + 9 * 3


def test_a_call_with_several_operations_counts_once(tmp_path: Path) -> None:
    """As nsys 2023.4 and 2025.3 count them, graph or not."""
    recording = Recording()
    rank = Rank(recording, 0)
    rank.kernel(5)
    rank.kernel(5)
    rank.range("step", 0)
    kernels = recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    start, end, *rest = kernels[-1]
    kernels.append((int(str(start)) + 9000, int(str(end)) + 9000, *rest))
    with Database.open(recording.save(tmp_path / "calls.sqlite")) as database:
        (row,) = ANALYSES["nvtx_gpu_proj_sum"].table(database).rows
    assert row[2] == int(str(end)) + 9000 - int(str(kernels[0][0]))
    assert row[-4:] == (2, 2.0, 0.0, 0.0)


def test_kernels_of_one_total_go_by_count_and_then_by_name(tmp_path: Path) -> None:
    """As in nsys' own query: longest total, fewest instances, name."""
    recording = Recording()
    rank = Rank(recording, 0)
    for length, name in ((1, "a"), (1, "a"), (2, "z"), (2, "m"), (9, "first")):
        rank.kernel(length, name)
    with Database.open(recording.save(tmp_path / "ties.sqlite")) as database:
        rows = ANALYSES["cuda_gpu_kern_sum"].table(database).rows
    assert [row[-1] for row in rows] == ["first", "m", "z", "a"]


def test_mpi_calls_as_nsys_prints_them(tmp_path: Path) -> None:
    """Recorded from nsys 2025.3.1 over a report with these rows."""
    names = ("MPI_Allreduce", "MPI_Send", "MPI_Wait", "MPI_Init", "MPI_Barrier")
    here = thread(7)
    tables = {
        "MPI_COLLECTIVES_EVENTS": [
            (3000 + i * 50, 3017 + i * 51, here, (1, 5)[i % 2]) for i in range(20)
        ],
        "MPI_P2P_EVENTS": [(100 + i * 50, 107 + i * 51, here, 2) for i in range(0, 40, 4)],
        "MPI_START_WAIT_EVENTS": [(9000 + i * 50, 9001 + i * 51, here, 3) for i in range(9)],
        "MPI_OTHER_EVENTS": [(1, 99, here, 4)],
    }
    report = make_report(tmp_path / "mpi.sqlite", tables, names)
    with Database.open(report) as database:
        lines = to_csv(ANALYSES["mpi_event_sum"].table(database)).splitlines()
    assert lines[0].endswith("StdDev (ns),Source,Name")
    assert [line.partition(",")[2] for line in lines[1:]] == [
        "270,10,27.0,27.0,18,36,6.1,collectives,MPI_Barrier",
        "260,10,26.0,26.0,17,35,6.1,collectives,MPI_Allreduce",
        "250,10,25.0,25.0,7,43,12.1,p2p,MPI_Send",
        "98,1,98.0,98.0,98,98,0.0,other,MPI_Init",
        "45,9,5.0,5.0,1,9,2.7,start-wait,MPI_Wait",
    ]
