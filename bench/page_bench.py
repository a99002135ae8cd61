"""The page, the timeline and the scrub of a big run: seconds, peak memory, size of what comes out.

    .venv/bin/python bench/page_bench.py [--ranks 8] [--times 168] [--folder /tmp/…] [--all]

Each rank's report is a recorded one repeated `--times` times: 168 gives a million kernels and
2.3 million API rows a rank. Goals, on two cores: a page of 8 such ranks in 10 s and 10 MB.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.big_report import big_report  # noqa: E402
from gpu_profile.analysis.analysis import Scope  # noqa: E402
from gpu_profile.analysis.database import Database  # noqa: E402
from gpu_profile.analysis.page import write_page  # noqa: E402
from gpu_profile.analysis.parallel import Source  # noqa: E402
from gpu_profile.analysis.schema import KERNEL, pid_of  # noqa: E402
from gpu_profile.analysis.scrub import scrub  # noqa: E402
from gpu_profile.analysis.table import Cell, Column, Table  # noqa: E402
from gpu_profile.analysis.timeline import timeline  # noqa: E402
from gpu_profile.analysis.writers import to_text  # noqa: E402

RECORDED = ROOT / "tests/data/h200x4-ddp"
COLUMNS = (
    Column("What"),
    Column("Ranks"),
    Column("Kernels"),
    Column("Time", "s"),
    Column("CPU", "s"),
    Column("Peak", "MB"),
    Column("Output", "MB"),
)


def sources(folder: Path, ranks: int, times: int) -> tuple[list[Source], int]:
    """The reports, each with its rank, and how many kernels they hold."""
    found, kernels = [], 0
    for rank in range(ranks):
        recorded = RECORDED / f"rank{rank % 4}.sqlite.gz"
        path = big_report(recorded, folder / f"rank{rank}.x{times}.sqlite", times)
        with Database.open(path) as database:
            process = database.load(KERNEL, "globalPid", sort=False)["globalPid"]
        kernels += len(process)
        scope = Scope(ranks={int(pid): rank for pid in np.unique(pid_of(process))})
        found.append(Source(str(path), scope))
    return found, kernels


def measured(
    what: str, ranks: int, kernels: int, output: Path, make: Callable[[], object]
) -> tuple[Cell, ...]:
    begun, used = time.perf_counter(), _processor_time()
    make()
    seconds, used = time.perf_counter() - begun, _processor_time() - used
    # Linux counts ru_maxrss in KiB, of the largest of the processes waited for.
    peak = max(getrusage(who).ru_maxrss for who in (RUSAGE_SELF, RUSAGE_CHILDREN)) / 1e3
    size = output.stat().st_size / 1e6
    return (what, ranks, kernels, round(seconds, 2), round(used, 2), round(peak, 0), round(size, 2))


def _processor_time() -> float:
    """Of all cores, children included: what the wall clock cannot say on a busy machine."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--times", type=int, default=168)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "page-bench")
    parser.add_argument("--all", action="store_true", help="the timeline and the scrub too")
    wish = parser.parse_args()
    wish.folder.mkdir(parents=True, exist_ok=True)
    reports, kernels = sources(wish.folder, wish.ranks, wish.times)
    page = wish.folder / "page.html"
    rows = [measured("page", wish.ranks, kernels, page, lambda: write_page(reports, page))]
    if wish.all:
        trace = wish.folder / "run.pftrace.gz"
        pairs = [(Path(source.place), source.scope) for source in reports]
        rows.append(
            measured("timeline", wish.ranks, kernels, trace, lambda: timeline(pairs, trace))
        )
        clean, first = wish.folder / "clean.sqlite", pairs[0][0]
        each = kernels // wish.ranks
        rows.append(measured("scrub", 1, each, clean, lambda: scrub([first], clean)))
    print(to_text(Table("page_bench", COLUMNS, tuple(rows))))


if __name__ == "__main__":
    main()
