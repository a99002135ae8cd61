"""How often `compare` fails for an unchanged program, and how often for one that is slower.

    .venv/bin/python bench/compare_bench.py [--trials 2000] [--steps 20]

Each trial draws the runs of two sides: a run's median differs from the program's by the spread
between runs (normal), its steps by 3 % (log-normal, each 0.5 correlated with the one before). It
prints the share of trials that end with exit code 8 at the default threshold of 5 %. Goals, with
3 to 10 runs a side: at most 2 % of unchanged programs for spreads up to 6 %, at least 80 % of
those 10 % slower at a spread of 2 %.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_profile.analysis.compare.significance import Samples, compare_medians  # noqa: E402
from gpu_profile.formats.table_formats import to_text  # noqa: E402
from gpu_profile.table import Cell, Column, Table  # noqa: E402

SEED, STEP_SPREAD, CORRELATION, FAIL_OVER = 15, 0.03, 0.5, 0.05
SPREADS, RUNS = (0.005, 0.01, 0.02, 0.03, 0.06), (1, 2, 3, 5, 10)


def share_of_alarms(runs: int, spread: float, slower: float, trials: int, steps: int = 20) -> float:
    """The share of trials that fail, with this many runs a side; the same each time."""
    random = np.random.default_rng(SEED)
    failed = 0
    for _ in range(trials):
        base = [_draw_run(random, 1.0, spread, steps) for _ in range(runs)]
        new = [_draw_run(random, slower, spread, steps) for _ in range(runs)]
        difference = compare_medians(base, new)
        failed += bool(difference and difference.significant and difference.change > FAIL_OVER)
    return failed / trials


def _draw_run(random: np.random.Generator, usual: float, spread: float, steps: int) -> Samples:
    """The step times of one run, in seconds."""
    noise = random.normal(0, 1, steps)
    for step in range(1, steps):
        noise[step] = CORRELATION * noise[step - 1] + (1 - CORRELATION**2) ** 0.5 * noise[step]
    median = usual * max(0.1, 1 + random.normal(0, spread))
    return np.asarray(median * np.exp(STEP_SPREAD * noise))


COLUMNS = (
    Column("Runs a side"),
    Column("Spread", "%"),
    Column("Unchanged, exit 8", "%", 2),
    Column("10 % slower, exit 8", "%", 1),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=20)
    chosen = parser.parse_args()
    rows: list[tuple[Cell, ...]] = []
    for runs in RUNS:
        for spread in SPREADS:
            wrong, right = (
                100 * share_of_alarms(runs, spread, slower, chosen.trials, chosen.steps)
                for slower in (1.0, 1.1)
            )
            rows.append((runs, 100 * spread, wrong, right))
    sys.stdout.write(to_text(Table("compare_bench", COLUMNS, tuple(rows))))


if __name__ == "__main__":
    main()
