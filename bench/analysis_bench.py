"""Our tables against `nsys stats`, in one run on one big report: seconds and peak memory.

    .venv/bin/python bench/analysis_bench.py [--nsys PATH] [--times 405] [--folder /tmp/…] [--ours]

The report is a recorded one repeated `--times` times: 405 gives 2.4 M kernels, 5.6 M API rows,
480 MB. Each contender runs as a process of its own, files in the page cache, best of `--best`.
nsys starts from the .sqlite, as we do; what it spends on exporting is not counted.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.big_report import big_report  # noqa: E402
from gpu_profile.analysis.table import Column, Table  # noqa: E402
from gpu_profile.analysis.writers import to_text  # noqa: E402

RECORDED = ROOT / "tests/data/h200x4-ddp/rank0.sqlite.gz"
FIVE = "cuda_gpu_kern_sum,cuda_api_sum,cuda_gpu_mem_time_sum,nvtx_sum,cuda_kern_exec_sum"
CASES = ("cuda_gpu_kern_sum", "cuda_api_sum", FIVE, "nvtx_gpu_proj_sum", "nvtx_kern_sum")
GOALS = {"cuda_gpu_kern_sum": 20, FIVE: 10, "nvtx_gpu_proj_sum": 10}
OURS = """
import sys
from gpu_profile.analysis.nsys_tables import ANALYSES
from gpu_profile.analysis.database import Database
from gpu_profile.analysis.writers import to_csv
with Database.open(sys.argv[1]) as database:
    for name in sys.argv[2].split(","):
        sys.stdout.write(to_csv(ANALYSES[name].table(database)))
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: float


def cost(argv: Sequence[str], best: int) -> Cost:
    """The fastest of `best` runs, and its peak of resident memory, children included."""
    return min((_once(argv) for _ in range(best)), key=lambda one: one.seconds)


def _once(argv: Sequence[str]) -> Cost:
    # A fresh parent, so that the peak of its children is this command's alone.
    measure = (
        "import resource,subprocess,sys,time;t=time.perf_counter();"
        "subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);"
        "print(time.perf_counter()-t,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    answer = subprocess.run(
        [sys.executable, "-c", measure, *argv],
        check=True, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    seconds, kilobytes = answer.stdout.split()[-2:]
    return Cost(float(seconds), int(kilobytes) / 1024)


def nsys_stats(nsys: str, report: Path, tables: str, best: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        output = ("--format", "csv", "--output", f"{folder}/out", "--force-overwrite=true")
        argv = (nsys, "stats", "--force-export=false", *output, "--report", tables, str(report))
        return cost(argv, best)


def our_stats(report: Path, tables: str, best: int) -> Cost:
    return cost((sys.executable, "-c", OURS, str(report), tables), best)


def compared(report: Path, nsys: str, best: int) -> Table:
    rows = []
    for tables in CASES:
        ours = our_stats(report, tables, best)
        theirs = nsys_stats(nsys, report, tables, best) if nsys else None
        name = tables if "," not in tables else f"{tables.count(',') + 1} tables"
        rows.append((name, *_row(ours, theirs), GOALS.get(tables)))
    return Table(report.name, COLUMNS, tuple(rows))


def _row(ours: Cost, theirs: Cost | None) -> tuple[float | None, ...]:
    if theirs is None:
        return (ours.seconds, ours.megabytes, None, None, None, None)
    ratio = theirs.seconds / ours.seconds
    memory = ours.megabytes / theirs.megabytes
    return (ours.seconds, ours.megabytes, theirs.seconds, theirs.megabytes, ratio, memory)


COLUMNS = (
    Column("Tables"),
    Column("Ours", "s", 2),
    Column("Ours", "MB", 0),
    Column("nsys", "s", 2),
    Column("nsys", "MB", 0),
    Column("Times faster"),
    Column("Memory share", "", 2),
    Column("Goal"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsys", default=shutil.which("nsys") or "", help="default: on PATH")
    parser.add_argument("--times", type=int, default=405)
    parser.add_argument("--best", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--ours", action="store_true", help="without nsys")
    chosen = parser.parse_args()
    report = chosen.folder / f"gpu-profile-bench-{chosen.times}.sqlite"
    started = time.perf_counter()
    big_report(RECORDED, report, chosen.times)
    sys.stderr.write(f"{report}: {report.stat().st_size / 1e6:.0f} MB")
    sys.stderr.write(f", made in {time.perf_counter() - started:.0f} s\n")
    sys.stdout.write(to_text(compared(report, "" if chosen.ours else chosen.nsys, chosen.best)))


if __name__ == "__main__":
    main()
