"""How often `ci` fails for an unchanged program, and how often it finds 3 % more GPU time.

    .venv/bin/python bench/ci_bench.py [--pool ci.json…] [--pairs 6] [--clock 0.01]

A pool is what `gpu-profile ci --pairs 24 --format json --output ci.json` writes, with a change that
is known to take 3 % more GPU time: 24 runs of the base and 24 of the change. Comparisons of both
figures are drawn from it: base against base, whose failures are false alarms, and base against
change. The runs of a comparison are drawn in any order, so that a drift of the machine, which
runs in turn would share, counts as noise. Goals: at most 2 % false alarms, and 16 of 20 found.

bench/pools has pools of an H100, 2026-11-25 (nsys 2025.3.1), whose change is a product of 3 % more
GPU time; docs/ci.md has their figures. bench/pools/record.sh made products-h100.json: 24 runs a
side. gpt-h100.json has 8 of a GPT in bf16, with seven other programs that start on the same machine
meanwhile; of 8 runs no 6 pairs of unchanged ones can be drawn.

Without a pool it makes one: 48 runs of a program of tests/generator. Their noise is made up: the
GPU's clock differs between runs by 0.4 % and drifts by 0.5 %, the host's times differ by 5 %, and
one run of twelve has a neighbour that takes 4 % of the host's time.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_profile.analysis.compare.samples import Metric, sample_report  # noqa: E402
from gpu_profile.analysis.compare.steady import sample_run  # noqa: E402
from gpu_profile.analysis.pull_request.document import read_result  # noqa: E402
from gpu_profile.analysis.pull_request.figure import Figure  # noqa: E402
from gpu_profile.analysis.pull_request.result import CiResult  # noqa: E402
from gpu_profile.analysis.store.database import Database  # noqa: E402
from gpu_profile.analysis.tables.analysis import Scope  # noqa: E402
from tests.generator.program import Phases, Plant, Program, draw_program  # noqa: E402
from tests.generator.simulate import simulate  # noqa: E402

SEED, RUNS, MORE = 31, 24, 0.03
CLOCK, DRIFT, HOST, NEIGHBOUR, NEIGHBOURS = 0.004, 0.005, 0.05, 0.04, 12
FAIL_OVER = {"gpu": 0.01, "step": 0.05}


@dataclass(frozen=True)
class Pool:
    """The medians (ms) of runs by metric: unchanged ones, and changed ones."""

    unchanged: dict[str, tuple[float, ...]]
    changed: dict[str, tuple[float, ...]]

    @classmethod
    def of(cls, result: CiResult) -> "Pool":
        return cls(
            {figure.metric: figure.base_ms for figure in result.figures},
            {figure.metric: figure.new_ms for figure in result.figures},
        )


def share_of_failures(pool: Pool, pairs: int, draws: int, *, changed: bool) -> float:
    """The share of comparisons that fail, of so many pairs; the same each time."""
    random_rows = np.random.default_rng(SEED)
    failed = 0
    for _ in range(draws):
        drawn = random_rows.permutation(len(pool.unchanged["gpu"]))
        base = drawn[:pairs]
        new = random_rows.permutation(len(pool.changed["gpu"])) if changed else drawn[pairs:]
        side = pool.changed if changed else pool.unchanged
        figures = tuple(
            Figure(
                metric=metric,
                base_ms=tuple(pool.unchanged[metric][row] for row in base),
                new_ms=tuple(side[metric][row] for row in new[:pairs]),
                fail_over=FAIL_OVER[metric],
            )
            for metric in pool.unchanged
        )
        failed += CiResult(base="pool", figures=figures).fails
    return failed / draws


def make_pool(clock: float = CLOCK, runs: int = RUNS) -> Pool:
    """The medians of runs of a synthetic program, in turns unchanged and with MORE GPU time."""
    sides: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    for number, program in enumerate(_draw_runs(clock, 2 * runs)):
        sides[number % 2].append(_measure(program))
    pools = [{name: tuple(run[name] for run in side) for name in FAIL_OVER} for side in sides]
    return Pool(*pools)


def _draw_runs(clock: float, runs: int) -> Iterator[Program]:
    draw = random.Random(SEED)
    program = next(drawn for seed in range(SEED, 999) if (drawn := draw_program(seed)).ranks == 1)
    nothing = replace(program, plant=Plant(), second=Plant(), phases=Phases(), window=None)
    usual = replace(nothing, steps=24, jitter=0.02, marks="step")
    for run in range(runs):
        pace = draw.gauss(1, clock) * (1 + DRIFT * run / runs) * (1 + MORE * (run % 2))
        neighbour = 1 + NEIGHBOUR * (draw.randrange(NEIGHBOURS) == 0)
        host = usual.host_us * max(0.5, draw.gauss(1, HOST)) * neighbour
        yield replace(_stretch(usual, pace), host_us=host, seed=draw.randrange(1 << 30))


def _stretch(program: Program, factor: float) -> Program:
    def scale(kernels: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        return tuple((kernel, us * factor) for kernel, us in kernels)

    return replace(
        program,
        forward=scale(program.forward),
        backward=scale(program.backward),
        optimizer=scale(program.optimizer),
    )


def _measure(program: Program) -> dict[str, float]:
    medians = {}
    with tempfile.TemporaryDirectory() as folder:
        (path,) = simulate(program).save(Path(folder))
        with Database.open(path) as database:
            for name in FAIL_OVER:
                metric = Metric.parse(name)
                samples = sample_report(database, Scope(), metric)
                medians[name] = float(np.median(sample_run(samples, metric, "base").times)) / 1e6
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, nargs="*", help="what ci --format json wrote")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--clock", type=float, default=CLOCK, help="spread of the made-up clocks")
    chosen = parser.parse_args()
    for path in chosen.pool or ():
        print(path.name)
        judge_pool(Pool.of(read_result(path.read_text())), chosen.pairs, chosen.draws)
    if not chosen.pool:
        judge_pool(make_pool(chosen.clock), chosen.pairs, chosen.draws)


def judge_pool(pool: Pool, pairs: int, draws: int) -> None:
    """Print the pool's spread, and what comes of comparisons that are drawn from it."""
    for name, times in pool.unchanged.items():
        spread = 100 * float(np.std(times, ddof=1) / np.mean(times))
        more = 100 * (float(np.mean(pool.changed[name]) / np.mean(times)) - 1)
        print(f"{name}: {len(times)} runs a side, spread {spread:.2f} %, change {more:+.2f} %")
    false, power = (
        share_of_failures(pool, pairs, draws, changed=changed) for changed in (False, True)
    )
    print(f"{pairs} pairs: false alarms {100 * false:.2f} %, found {20 * power:.1f} of 20")


if __name__ == "__main__":
    main()
