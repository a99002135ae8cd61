"""The page, the timeline and the scrub of a big run: seconds, peak memory, size of what comes out.

    .venv/bin/python bench/page_bench.py [--ranks 8] [--times 168] [--folder /tmp/…] [--all]

Each rank's report is a recorded one repeated `--times` times: 168 gives a million kernels and
2.3 million API rows a rank. The verbs run as a user runs them, from their start to the finished
file. Goals, on two cores: a page of 8 such ranks in 10 s and 10 MB.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.big_report import big_report  # noqa: E402
from bench.cost import cost  # noqa: E402
from gpu_profile.analysis.store.database import Database  # noqa: E402
from gpu_profile.analysis.store.schema import KERNEL  # noqa: E402
from gpu_profile.formats.table_formats import to_text  # noqa: E402
from gpu_profile.table import Cell, Column, Table  # noqa: E402

RECORDED = ROOT / "tests/data/h200x4-ddp"
COLUMNS = (
    Column("What"),
    Column("Ranks"),
    Column("Kernels"),
    Column("Time", "s"),
    Column("CPU", "s"),
    Column("Peak of a process", "MB"),
    Column("Output", "MB"),
)


def reports(folder: Path, ranks: int, times: int) -> tuple[list[Path], int]:
    """The ranks' reports, and how many kernels they hold."""
    found, kernels = [], 0
    for rank in range(ranks):
        recorded = RECORDED / f"rank{rank % 4}.sqlite.gz"
        path = big_report(recorded, folder / f"rank{rank}.x{times}.sqlite", times)
        with Database.open(path) as database:
            kernels += database.count(KERNEL)
        found.append(path)
    return found, kernels


def measured(verb: str, paths: list[Path], kernels: int, output: Path) -> tuple[Cell, ...]:
    """One run of a verb on these reports."""
    given = [word for path in paths for word in ("--report", str(path))]
    invoke = (sys.executable, "-m", "invoke", "--search-root", str(ROOT))
    spent = cost((*invoke, verb, *given, "--output", str(output)))
    size = round(output.stat().st_size / 1e6, 2)
    times = round(spent.seconds, 2), round(spent.processor, 2), round(spent.megabytes, 0)
    return (verb, len(paths), kernels, *times, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--times", type=int, default=168)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "page-bench")
    parser.add_argument("--all", action="store_true", help="the timeline and the scrub too")
    wish = parser.parse_args()
    wish.folder.mkdir(parents=True, exist_ok=True)
    paths, kernels = reports(wish.folder, wish.ranks, wish.times)
    rows = [measured("html", paths, kernels, wish.folder / "page.html")]
    if wish.all:
        rows.append(measured("timeline", paths, kernels, wish.folder / "run.pftrace.gz"))
        each = kernels // wish.ranks
        rows.append(measured("scrub", paths[:1], each, wish.folder / "clean.sqlite"))
    print(to_text(Table("page_bench", COLUMNS, tuple(rows))))


if __name__ == "__main__":
    main()
