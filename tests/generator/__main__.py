"""Judge many synthetic runs: what is wrong, and how much of what is planted is named.

    .venv/bin/python -m tests.generator --runs 2000 [--seed 1] [--workers 2] [--show 20] [--gains]

Prints a line a plant, then the first runs that are wrong. A seed repeats its run exactly.
With --gains: how many predicted gains are those of the fix, by plant.
"""

import argparse
import secrets
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain

from tests.generator.gains import judge_gains
from tests.generator.judge import NAMED_COST, Verdict, judge_seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="of the first run")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", type=int, default=20, help="how many wrong runs to print")
    parser.add_argument("--gains", action="store_true", help="judge predicted gains")
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.runs)
    if chosen.gains:
        _print_gains(seeds, chosen.workers)
        return
    with ProcessPoolExecutor(chosen.workers) as pool:
        verdicts = list(pool.map(judge_seed, seeds, chunksize=8))
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    print(*_lines(verdicts), sep="\n")
    faults = [verdict for verdict in verdicts if verdict.wrong or verdict.steps or verdict.misses]
    print(*faults[: chosen.show], sep="\n")


def _print_gains(seeds: range, workers: int) -> None:
    with ProcessPoolExecutor(workers) as pool:
        gains = list(chain.from_iterable(pool.map(judge_gains, seeds, chunksize=4)))
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    for name in sorted({gain.plant.name for gain in gains}):
        group = [gain for gain in gains if gain.plant.name == name]
        right, silent = sum(gain.is_right for gain in group), sum(bool(g.why_not) for g in group)
        print(f"{name:14} {right} of {len(group)} right, {silent} without a replay")
    print(*(gain for gain in gains if not gain.is_right), sep="\n")


def _lines(verdicts: Sequence[Verdict]) -> list[str]:
    groups = defaultdict[str, list[Verdict]](list)
    for verdict in verdicts:
        for name in [plant.name for plant in verdict.program.plants] or ["nothing"]:
            groups[name].append(verdict)
    causes = Counter(text.split(" on ")[0] for verdict in verdicts for text in verdict.wrong)
    lines = [_line(name, group, {name}) for name, group in sorted(groups.items())]
    return [*lines, _line("all", verdicts, set(groups)), f"wrong: {dict(causes.most_common())}"]


def _line(name: str, group: Sequence[Verdict], plants: Container[str]) -> str:
    costs = [cost for verdict in group for cost in verdict.costs if cost.plant.name in plants]
    costly = [cost for cost in costs if cost.share >= NAMED_COST]
    named = sum(cost.named for cost in costly)
    wrong = sum(bool(verdict.wrong) for verdict in group)
    steps = sum(bool(verdict.steps) for verdict in group)
    return (
        f"{name:14} {len(group):5} runs, {wrong:4} with a wrong cause, {steps:4} with wrong steps, "
        f"{named} of {len(costly)} of {NAMED_COST:.0%} or more named"
    )


if __name__ == "__main__":
    main()
