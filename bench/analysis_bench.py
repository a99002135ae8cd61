"""Our tables against `nsys stats` and nsys-ai, in one run on one big report.

    .venv/bin/python bench/analysis_bench.py [--nsys PATH] [--nsys-ai PATH] [--times 405]
        [--folder /tmp/…] [--best 2] [--only tables|scale|ranks|memory|small]

The report is a recorded one repeated `--times` times: 405 gives 2.4 M kernels, 5.6 M API rows,
480 MB. Each contender runs as a process of its own, files in the page cache, best of `--best`.
nsys starts from the .sqlite, as we do; what it spends on exporting is not counted. nsys-ai is
PyPI's (`pip install nsys-ai` into a virtual environment of its own; give its bin/nsys-ai).
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.big_report import big_report  # noqa: E402
from bench.cost import Cost, Failed, cost  # noqa: E402
from gpu_profile.formats.table_formats import to_text  # noqa: E402
from gpu_profile.table import Cell, Column, Table  # noqa: E402

RECORDED = ROOT / "tests/data/h200x4-ddp"
FIVE = "cuda_gpu_kern_sum,cuda_api_sum,cuda_gpu_mem_time_sum,nvtx_sum,cuda_kern_exec_sum"
CASES = ("cuda_gpu_kern_sum", "cuda_api_sum", FIVE, "nvtx_gpu_proj_sum", "nvtx_kern_sum")
GOALS = {"cuda_gpu_kern_sum": 22, FIVE: 18, "nvtx_gpu_proj_sum": 10}
# nsys-ai's skill that says the same as the table, where it has one.
SKILLS = {
    "cuda_gpu_kern_sum": "top_kernels",
    "cuda_gpu_mem_time_sum": "memory_transfers",
    "nvtx_kern_sum": "nvtx_kernel_map",
    "nvtx_gpu_proj_sum": "nvtx_layer_breakdown",
}
PATIENCE_S, LIMIT_MB = 900, 12_000  # nsys-ai was seen to take 24 GB
SCALES, RANKS, MANY = (50, 100, 200, 400), 8, 64
OURS = """
import sys
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import ANALYSES
from gpu_profile.formats.table_formats import to_csv
with Database.open(sys.argv[1]) as database:
    for name in sys.argv[2].split(","):
        sys.stdout.write(to_csv(ANALYSES[name].table(database)))
"""
SEVERAL = """
import sys
from gpu_profile.analysis.multi_report.parallel import collect_partials, merge_answers
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
if __name__ == "__main__":
    workers, names = int(sys.argv[1]), sys.argv[2].split(",")
    sources = [ReportSource(path) for path in sys.argv[3:]]
    analyses = [{**ANALYSES, **OURS}[name] for name in names]
    merge_answers(sources, analyses, collect_partials(sources, analyses, workers=workers))
"""


@dataclass(frozen=True)
class BenchOptions:
    """`nsys` and `nsys_ai`: programs, "" for none."""

    nsys: str
    nsys_ai: str
    times: int
    best: int
    folder: Path

    def report(self, times: int, rank: int = 0) -> Path:
        name = f"gpu-profile-bench-{times}.rank{rank}.sqlite"
        return big_report(RECORDED / f"rank{rank % 4}.sqlite.gz", self.folder / name, times)


def ours(report: Path, tables: str, best: int) -> Cost:
    return cost((sys.executable, "-c", OURS, str(report), tables), best)


def nsys_stats(nsys: str, report: Path, tables: str, best: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        output = ("--format", "csv", "--output", f"{folder}/out", "--force-overwrite=true")
        argv = (nsys, "stats", "--force-export=false", *output, "--report", tables, str(report))
        return cost(argv, best)


def nsys_ai(program: str, report: Path, skill: str) -> Cost:
    """From its cold state, as ours: it leaves files beside the report, so it gets a link to it."""
    with tempfile.TemporaryDirectory(dir=report.parent) as folder:
        link = Path(folder) / report.name
        os.link(report, link)
        argv = (program, "skill", "run", skill, str(link))
        return cost(argv, 1, LIMIT_MB, PATIENCE_S)


def compared(options: BenchOptions) -> Table:
    """Every case against those that are here."""
    report, rows = options.report(options.times), []
    for tables in (*CASES, "cuda_gpu_mem_time_sum"):
        name = tables if "," not in tables else f"{tables.count(',') + 1} tables"
        us = ours(report, tables, options.best)
        row: list[Cell] = [name, us.seconds, us.processor, us.megabytes, GOALS.get(tables)]
        if not options.nsys:
            row += [None] * 6
        else:
            row += _against(us, partial(nsys_stats, options.nsys, report, tables, options.best))
        if options.nsys_ai and tables in SKILLS:
            row += _against(us, partial(nsys_ai, options.nsys_ai, report, SKILLS[tables]))
        rows.append((*row, *[None] * (len(COLUMNS) - len(row))))
    return Table(report.name, COLUMNS, tuple(rows))


def _against(us: Cost, them: Callable[[], Cost]) -> list[Cell]:
    try:
        their = them()
    except Failed as error:
        sys.stderr.write(f"failed: {error}\n")
        return [None] * 6
    return [
        *(their.seconds, their.processor, their.megabytes, their.seconds / us.seconds),
        *(their.processor / us.processor, us.megabytes / their.megabytes),
    ]


def scaled(options: BenchOptions) -> Table:
    """The same at one, two, four and eight times the size: seconds a million kernels."""
    rows = []
    for tables in ("cuda_gpu_kern_sum", FIVE, "nvtx_gpu_proj_sum"):
        for times in SCALES:
            us = ours(options.report(times), tables, options.best)
            name = tables if "," not in tables else "five tables"
            millions = times * 5_880 / 1e6
            rows.append((name, f"{times // SCALES[0]}x", us.seconds, us.megabytes, millions))
    return Table("scale", SCALE_COLUMNS, tuple(rows))


def several(options: BenchOptions, times: int = 168) -> Table:
    """Eight ranks by one process, and by as many as there are cores."""
    reports = [str(options.report(times, rank)) for rank in range(RANKS)]
    rows = []
    for tables in ("cuda_gpu_kern_sum", FIVE, "temporal_breakdown,comm_sum,step_sum"):
        for workers in (1, 0):
            us = cost((sys.executable, "-c", SEVERAL, str(workers), tables, *reports), options.best)
            who = f"{workers or os.cpu_count()} processes"
            rows.append((tables, RANKS, who, us.seconds, us.processor, us.megabytes))
    return Table("ranks", RANK_COLUMNS, tuple(rows))


def memory(options: BenchOptions, times: int = 40) -> Table:
    """One report, and as many as a cluster's, one of them larger: the peak is the largest's."""
    small, large = str(options.report(times)), str(options.report(4 * times))
    rows = []
    for what, reports in (
        ("1 rank", [small]),
        (f"{MANY} ranks", [small] * MANY),
        ("1 rank, four times as large", [large]),
        (f"{MANY} ranks, one of them that large", [large, *[small] * (MANY - 1)]),
    ):
        tables = "cuda_gpu_kern_sum,temporal_breakdown,step_sum"
        us = cost((sys.executable, "-c", SEVERAL, "0", tables, *reports))
        rows.append((tables, len(reports), what, us.seconds, us.processor, us.megabytes))
    return Table("memory", RANK_COLUMNS, tuple(rows))


def small(options: BenchOptions) -> Table:
    """Four reports of a megabyte, as recorded: 2 s of CPU at most, whatever the machine."""
    reports = [options.report(1, rank) for rank in range(4)]
    words = [f"--report={report}" for report in reports]
    rows = []
    for verb in ("diagnose", "stats"):
        us = cost((sys.executable, "-m", "invoke", "--search-root", str(ROOT), verb, *words))
        rows.append((verb, 4, f"{os.cpu_count()} cores", us.seconds, us.processor, us.megabytes))
    return Table("small", RANK_COLUMNS, tuple(rows))


COLUMNS = (
    *(Column("Tables"), Column("Ours", "s", 2), Column("CPU", "s", 2), Column("Ours", "MB", 0)),
    Column("Goal"),
    *(
        column
        for name in ("nsys", "nsys-ai")
        for column in (
            *(Column(name, "s", 2), Column("CPU", "s", 2), Column(name, "MB", 0)),
            *(Column("Times faster"), Column("CPU less"), Column("Memory share", "", 2)),
        )
    ),
)
SCALE_COLUMNS = (
    *(Column("Tables"), Column("Size"), Column("Ours", "s", 2), Column("Ours", "MB", 0)),
    Column("Kernels", "million", 2),
)
RANK_COLUMNS = (
    *(Column("Tables"), Column("Reports"), Column("What"), Column("Time", "s", 2)),
    *(Column("CPU", "s", 2), Column("Peak of a process", "MB", 0)),
)
PARTS = {"tables": compared, "scale": scaled, "ranks": several, "memory": memory, "small": small}


def _absent(options: BenchOptions) -> Iterator[str]:
    if not options.nsys:
        yield "nsys is not here: give --nsys (tests/live/nsys-oracle.sh unpacks one)"
    if not options.nsys_ai:
        yield "nsys-ai is left out: give --nsys-ai (pip install nsys-ai, elsewhere)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsys", default=shutil.which("nsys") or "", help="default: on PATH")
    parser.add_argument("--nsys-ai", default=shutil.which("nsys-ai") or "", help="likewise")
    parser.add_argument("--times", type=int, default=405)
    parser.add_argument("--best", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--only", choices=PARTS, action="append")
    chosen = parser.parse_args()
    options = BenchOptions(chosen.nsys, chosen.nsys_ai, chosen.times, chosen.best, chosen.folder)
    for line in _absent(options):
        sys.stderr.write(f"{line}\n")
    for part in chosen.only or PARTS:
        sys.stdout.write(f"{to_text(PARTS[part](options))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
