"""What a look at Python's stacks costs the thread that it looks at.

    .venv/bin/python bench/look_costs.py [--seconds 20] [--nsys PATH] [--python PATH] [--loop NAME]

Blocks of 0.4 s with looks and without take turns in one process that nsys records, 25 calls deep.
The loops are Python alone (python), eight nested calls and one that gives Python's lock up for
6 us (release), such a call in about a millisecond of Python (rare), or launches of a small kernel,
alone (launches) and by 50 pairs of modules (modules; both need torch and a GPU). The cost of a look
is what is missing in the millisecond around it: its length less its iterations at the mean length
of those beside it. Looks beside which the machine took the core away do not count. The places of
looks in the blocks without any show the error of the method. What the thread costs between its
looks, where it waits for Python's lock, is in the lengths of the blocks alone.
"""

import argparse
import array
import bisect
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

MARKS = Path(__file__).resolve().parents[1] / "Container-Root" / "agent" / "annotate"
LOOPS = ("python", "release", "rare", "launches", "modules")
DEPTH = 25
BLOCK_NS = 400_000_000
BEFORE_NS, AFTER_NS, BESIDE_NS = 300_000, 700_000, 6_000_000
"""The millisecond of a look, and what it is compared with on both sides."""
LONG_NS = 300_000  # an iteration that was that much longer than the mean lost its core


def make_work(loop: str) -> Callable[[], object]:
    if loop in ("launches", "modules"):
        return _make_gpu_work(loop)
    piece = bytes(20_000)
    tables = [dict.fromkeys(range(3000), 1) for _ in range(60)]  # in no cache between two looks
    counts = itertools.count(1)

    def call(depth: int) -> None:
        if depth:
            call(depth - 1)
            return
        count = next(counts)
        for key in range(count % 50, 3000, 150):
            tables[count % 60][key] = key
        if loop == "release" or (loop == "rare" and count % 200 == 0):
            zlib.adler32(piece)

    return (lambda: None) if loop == "python" else lambda: call(8)


def _make_gpu_work(loop: str) -> Callable[[], object]:
    import torch

    one, nn = torch.zeros(64, device="cuda"), torch.nn
    if loop == "launches":
        return lambda: one.add_(1)
    pairs = [nn.Sequential(nn.Sequential(nn.LayerNorm(64), nn.GELU())).cuda() for _ in range(50)]
    turns = itertools.cycle(pairs)
    return lambda: next(turns)(one)


def spin(work: Callable[[], object], stamps: "array.array[int]") -> int:
    """Fill in the end of each iteration of a block. Returns how many there were."""
    count, last = 0, perf_counter_ns()
    end = last + BLOCK_NS
    while last < end and count < len(stamps):
        work()
        stamps[count] = last = perf_counter_ns()
        count += 1
    return count


def find_cost(stamps: "array.array[int]", count: int, look: int) -> float | None:
    """Return the us that are missing around a look, or None where it does not count."""
    sides = (-BESIDE_NS, -BEFORE_NS, AFTER_NS, BESIDE_NS)
    if look - BESIDE_NS < stamps[0] or look + BESIDE_NS > stamps[count - 1]:
        return None
    a, b, c, d = (bisect.bisect_right(stamps, look + ns, 0, count) for ns in sides)
    mean = (stamps[b] - stamps[a] + stamps[d - 1] - stamps[c]) / max(1, b - a + d - 1 - c)
    beside = [stamps[k] - stamps[k - 1] for k in (*range(a + 1, b), *range(c + 2, d))]
    inside = [stamps[k] - stamps[k - 1] for k in range(b, c + 1)]
    if max(beside, default=0) > LONG_NS + 3 * mean or max(inside) > 4 * LONG_NS + mean:
        return None
    return (stamps[c] - stamps[b] - (c - b) * mean) / 1e3


def call_deep(call: Callable[[], object], depth: int) -> object:
    return call_deep(call, depth - 1) if depth else call()


def make_sampler(looks: list[int]) -> Any:
    """Return a sampler that notes in `looks` when it looked at the main thread."""
    sys.path.insert(0, str(MARKS))
    from gpu_profile_marks import nvtx
    from gpu_profile_marks.ranges import SWITCH
    from gpu_profile_pauses.pause_marks import PauseMarks
    from gpu_profile_pauses.sampler import Sampler
    from gpu_profile_pauses.stacks import split_notes

    SWITCH.on = True
    sampler = Sampler(PauseMarks(nvtx.open_domain("gpu-profile")))
    tell = sampler._tell

    def tell_noted() -> None:
        looks.extend(now for now, _stack in split_notes(sampler._notes))
        tell()

    sampler._tell = tell_noted  # type: ignore[method-assign]
    return sampler


class Blocks:
    """The blocks of a loop by whether they have looks: us lost a look, and mean ns an iteration."""

    def __init__(self, loop: str) -> None:
        self.costs: dict[bool, list[float]] = {True: [], False: []}
        self.means: dict[bool, list[float]] = {True: [], False: []}
        self.look_count = 0
        self._looks: list[int] = []
        self._sampler, self._work = make_sampler(self._looks), make_work(loop)
        self._stamps = array.array("q", bytes(8 * BLOCK_NS // 100))

    def measure(self, has_looks: bool) -> None:
        """Run a block, and find the cost at each look, or at places that have none."""
        count = self._spin_with_looks() if has_looks else spin(self._work, self._stamps)
        first, last = self._stamps[0], self._stamps[count - 1]
        self.means[has_looks].append((last - first) / max(1, count - 1))
        if has_looks:
            places = [look for look in self._looks if first < look < last]
            self.look_count += len(places)
        else:
            places = list(range(first + BESIDE_NS, last, 18_000_000))
        self._looks.clear()
        each = (find_cost(self._stamps, count, place) for place in places)
        self.costs[has_looks] += [cost for cost in each if cost is not None]

    def _spin_with_looks(self) -> int:
        self._sampler.start()
        time.sleep(0.003)
        count = spin(self._work, self._stamps)
        self._sampler.stop()
        return count


def run_child(loop: str, seconds: float) -> None:
    blocks, pairs = Blocks(loop), max(1, round(seconds * 1e9 / BLOCK_NS / 2))
    for _ in range(pairs):
        for has_looks in random.sample((True, False), 2):
            call_deep(partial(blocks.measure, has_looks), DEPTH)
    rate = blocks.look_count / (pairs * BLOCK_NS / 1e9)
    means = zip(blocks.means[True], blocks.means[False], strict=True)
    ratios = [on / off - 1 for on, off in means]
    figures = {"rate": rate, "on": blocks.costs[True], "off": blocks.costs[False], "ratios": ratios}
    print(json.dumps(figures), flush=True)
    os._exit(0)


def trim(values: list[float], part: float = 0.05) -> tuple[float, float]:
    """Return the mean without this part at each end, and its standard error."""
    values = sorted(values)
    cut = int(len(values) * part)
    values = values[cut : len(values) - cut]
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5


def measure_loop(options: argparse.Namespace, loop: str) -> None:
    words = [options.python, __file__, "--child", loop, f"--seconds={options.seconds}"]
    traces = "cuda,nvtx" if loop in ("launches", "modules") else "nvtx"
    with tempfile.TemporaryDirectory() as folder:
        nsys = [options.nsys, "profile", "--sample=none", "--cpuctxsw=none", f"--trace={traces}"]
        command = [*nsys, f"--output={folder}/report", *words]
        environ = {**os.environ, "GPU_PROFILE_ANNOTATE": "none"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{loop}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    figures = json.loads(lines[0])
    (cost, error), (zero, zero_error) = trim(figures["on"]), trim(figures["off"])
    longer, longer_error = trim(figures["ratios"], 0.25)
    part, rate = figures["rate"] * cost / 1e4, figures["rate"]
    cells = [f"{cost:.0f} ± {error:.0f}", f"{zero:.0f} ± {zero_error:.0f}", f"{part:.2f} %"]
    cells.append(f"{100 * longer:.2f} ± {100 * longer_error:.2f} %")
    print("|", " | ".join([loop, f"{rate:.0f}", *cells]), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--loop", action="append", choices=LOOPS)
    parser.add_argument("--child", choices=LOOPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(options.child, options.seconds)
    print("| loop | looks a second | us lost a look | without a look | part of the time | blocks |")
    print("|---|---|---|---|---|---|")
    for loop in options.loop or LOOPS:
        measure_loop(options, loop)


if __name__ == "__main__":
    main()
