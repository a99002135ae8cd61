"""The aims for the cost of reading: a page, two ratios to nsys, memory, small reports.

    .venv/bin/python bench/aims.py [--nsys PATH] [--base CHECKOUT] [--best 3] [--folder /tmp/…]
        [--only page|five|kernels|memory|sum|small]

The memory of `sum` is that of all processes together (PSS, sampled each 30 ms). With --cores 16 it
takes the number of workers and threads of such a machine: 1,390 to 1,400 MB with eight workers,
which held 4,050 to 4,300 before; 850 to 870 MB with two on two cores.

The other aims are for two cores. `--base` is a checkout of commit a407b15, which the memory is
compared with (git worktree add --detach /tmp/base a407b15); `--nsys` is an nsys with `stats`
(default: on PATH; tests/live/nsys-oracle.sh unpacks one). The columns of CPU time hold on a busy
machine too.

Each contender runs once uncounted, then `--best` times in a row, and the fastest run counts. The
uncounted run brings the reports into the page cache. Contenders that took turns would all start
cold on a virtual machine whose host takes unused memory back within seconds: there the first touch
of 600 MB took from 0.07 to 1.3 s, and a kern_sum 16 times faster than nsys' counted as 22 times
faster when warm.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.analysis_bench import FIVE, OURS, RECORDED  # noqa: E402
from bench.big_report import big_report  # noqa: E402
from bench.cost import Cost, cost  # noqa: E402
from bench.summed_memory import measure_sum  # noqa: E402
from gpu_profile.formats.table_formats import to_text  # noqa: E402
from gpu_profile.table import Cell, Column, Table  # noqa: E402

# 405 copies of a recorded report are 2.4 million kernels and 480 MB, 168 copies a million kernels.
BIG, MILLION, RANKS = 405, 168, 8
COLUMNS = (
    *(Column("Aim"), Column("Measured", "", 2), Column("Goal", "", 2), Column("Holds")),
    *(Column("By CPU time", "", 2), Column("Ours", "s", 2), Column("Ours", "MB", 0)),
)


@dataclass(frozen=True)
class BenchOptions:
    """`nsys`: a program, "" for none. `base`: a checkout, None for none. `cores`: 0 for this
    machine's.
    """

    nsys: str
    base: Path | None
    best: int
    folder: Path
    cores: int

    def reports(self, times: int, ranks: int) -> list[str]:
        """The paths of big reports, made once; each of four recorded ranks is used in turn."""
        paths = [self.folder / f"rank{rank}.x{times}.sqlite" for rank in range(ranks)]
        for rank, path in enumerate(paths):
            big_report(RECORDED / f"rank{rank % 4}.sqlite.gz", path, times)
        return [str(path) for path in paths]


def measure_warm(argv: Sequence[str], best: int) -> Cost:
    """The fastest of `best` runs after an uncounted one, by seconds and by CPU time apart."""
    cost(argv)
    runs = [cost(argv) for _ in range(best)]
    return Cost(
        min(run.seconds for run in runs),
        min(run.processor for run in runs),
        max(run.megabytes for run in runs),
    )


def verb(root: Path, name: str, reports: Sequence[str], *words: str) -> tuple[str, ...]:
    """A verb of a checkout, as a user types it."""
    invoke = (sys.executable, "-m", "invoke", "--search-root", str(root), name)
    report_words = (f"--report={report}" for report in reports)
    return ("env", f"--chdir={root}", f"PYTHONPATH={root}", *invoke, *report_words, *words)


def judge_page(options: BenchOptions) -> Iterator[tuple[Cell, ...]]:
    page = f"--output={options.folder / 'page.html'}"
    argv = verb(ROOT, "html", options.reports(MILLION, RANKS), page)
    us = measure_warm(argv, options.best)
    name = f"page of {RANKS} ranks, a million kernels each: seconds"
    yield (name, us.seconds, 6, us.seconds <= 6, us.processor, us.seconds, us.megabytes)


def judge_tables(
    options: BenchOptions, name: str, tables: str, goal: float
) -> Iterator[tuple[Cell, ...]]:
    (report,) = options.reports(BIG, 1)
    ours = (sys.executable, "-c", OURS, report, tables)
    output = ("--format", "csv", "--output", str(options.folder / "nsys"), "--force-overwrite=true")
    theirs = (options.nsys, "stats", "--force-export=false", *output, "--report", tables, report)
    us, them = (measure_warm(argv, options.best) for argv in (ours, theirs))
    ratio = them.seconds / us.seconds
    by_cpu = them.processor / us.processor
    yield (name, ratio, goal, ratio >= goal, by_cpu, us.seconds, us.megabytes)


def judge_five(options: BenchOptions) -> Iterator[tuple[Cell, ...]]:
    yield from judge_tables(options, "five tables: times faster than nsys stats", FIVE, 18)


def judge_kernels(options: BenchOptions) -> Iterator[tuple[Cell, ...]]:
    name = "cuda_gpu_kern_sum: times faster than nsys stats"
    yield from judge_tables(options, name, "cuda_gpu_kern_sum", 22)


def judge_memory(options: BenchOptions) -> Iterator[tuple[Cell, ...]]:
    assert options.base is not None
    large, two = options.reports(BIG, 1), options.reports(MILLION, 2)
    page = f"--output={options.folder / 'two.html'}"
    for name, reports, words in (
        ("stats", large, ("--table=cuda_gpu_kern_sum",)),
        ("stats", large, (f"--table={FIVE}",)),
        ("html", two, (page,)),
    ):
        contenders = [verb(root, name, reports, *words) for root in (ROOT, options.base)]
        us, them = (measure_warm(argv, options.best) for argv in contenders)
        what = words[0].partition("=")[2] if name == "stats" else "page of two ranks"
        what = "five tables" if "," in what else what
        ratio, by_cpu = us.megabytes / them.megabytes, us.processor / them.processor
        name_of_aim = f"memory of {what}, share of the base's"
        yield (name_of_aim, ratio, 1, ratio <= 1, by_cpu, us.seconds, us.megabytes)


def judge_sum(options: BenchOptions) -> Iterator[tuple[Cell, ...]]:
    argv = verb(ROOT, "diagnose", options.reports(MILLION, RANKS), "--together")
    megabytes = measure_sum(argv, options.cores)
    name = f"diagnose of {RANKS} ranks, a million kernels each: MB of all processes"
    yield (name, megabytes, 1500, megabytes <= 1500, None, None, megabytes)


def judge_small(options: BenchOptions) -> Iterator[tuple[Cell, ...]]:
    us = measure_warm(verb(ROOT, "diagnose", options.reports(1, 4)), options.best)
    name = "diagnose of four reports of 1 MB: seconds of CPU"
    yield (name, us.processor, 2, us.processor <= 2, us.processor, us.seconds, us.megabytes)


PARTS: dict[str, Callable[[BenchOptions], Iterator[tuple[Cell, ...]]]] = {
    "page": judge_page,
    "five": judge_five,
    "kernels": judge_kernels,
    "memory": judge_memory,
    "sum": judge_sum,
    "small": judge_small,
}


def list_possible(options: BenchOptions, chosen: Sequence[str]) -> list[str]:
    """The chosen parts whose contenders are here; names the others on stderr."""
    absent = {} if options.nsys else dict.fromkeys(("five", "kernels"), "give --nsys")
    absent |= {} if options.base else {"memory": "give --base"}
    for part in chosen:
        if part in absent:
            sys.stderr.write(f"{part} is left out: {absent[part]}\n")
    return [part for part in chosen if part not in absent]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsys", default=shutil.which("nsys") or "", help="default: on PATH")
    parser.add_argument("--base", type=Path, help="a checkout of a407b15")
    parser.add_argument("--best", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "aims-bench")
    parser.add_argument("--cores", type=int, default=0, help="of `sum`; default: this machine's")
    parser.add_argument("--only", choices=PARTS, action="append")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    options = BenchOptions(
        arguments.nsys,
        arguments.base and arguments.base.resolve(),
        arguments.best,
        arguments.folder,
        arguments.cores,
    )
    parts = list_possible(options, arguments.only or list(PARTS))
    rows = tuple(row for part in parts for row in PARTS[part](options))
    sys.stdout.write(to_text(Table("aims", COLUMNS, rows), 200))


if __name__ == "__main__":
    main()
