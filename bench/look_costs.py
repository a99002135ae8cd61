"""What a look at Python's stacks costs the thread that it looks at.

    .venv/bin/python bench/look_costs.py [--seconds 6] [--nsys PATH] [--python PATH] [--loop NAME]

A thread runs a loop of Python, of calls that give Python's lock up for 6 us each, or of launches of
a small kernel (torch; a GPU), 25 calls deep, recorded by nsys. A look falls into an iteration: what
that takes longer than the others is its cost, with the hand-over of the lock, which takes two
wake-ups, and the work on the marks. So the noise of the host is in few of the figures. Every eighth
look also makes the marks of eight.
"""

import argparse
import bisect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

MARKS = Path(__file__).resolve().parents[1] / "Container-Root" / "agent" / "annotate"
LOOPS = ("python", "release", "launches")
DEPTH = 25
Span = tuple[int, int]


def make_work(loop: str) -> Callable[[], object]:
    if loop == "python":
        return lambda: None
    if loop == "release":
        piece = bytes(20_000)
        return lambda: zlib.adler32(piece)
    import torch

    one = torch.zeros(64, device="cuda")
    return lambda: one.add_(1)


def list_gaps(work: Callable[[], object], seconds: float, least: float) -> tuple[list[Span], float]:
    """The iterations of more than `least` ns, and the mean of all in ns."""
    gaps, count = [], 0
    last = began = perf_counter_ns()
    while last < began + seconds * 1e9:
        work()
        now = perf_counter_ns()
        if now - last > least:
            gaps.append((last, now))
        last = now
        count += 1
    return gaps, (last - began) / count


def call_deep(call: Callable[[], object], depth: int) -> object:
    return call_deep(call, depth - 1) if depth else call()


def run_child(loop: str, seconds: float) -> None:
    sys.path.insert(0, str(MARKS))
    from gpu_profile_marks import nvtx
    from gpu_profile_marks.ranges import SWITCH
    from gpu_profile_pauses import sampler as sampling
    from gpu_profile_pauses.pause_marks import PauseMarks

    SWITCH.on = True
    sampler = sampling.Sampler(PauseMarks(nvtx.open_domain("gpu-profile")))
    spans: list[Span] = []
    look, tell = sampler._look, sampler._tell

    def look_timed(ours: int, now: int) -> None:
        began = perf_counter_ns()
        look(ours, now)
        spans.append((began, perf_counter_ns()))

    def tell_timed() -> None:
        tell()
        if spans:
            spans[-1] = (spans[-1][0], perf_counter_ns())

    sampler._look, sampler._tell = look_timed, tell_timed  # type: ignore[method-assign]
    work = make_work(loop)
    _, mean = list_gaps(work, 0.3, 1e12)
    gaps: list[Span] = []
    sampler.start()
    call_deep(lambda: gaps.extend(list_gaps(work, seconds, 1.5 * mean + 2000)[0]), DEPTH)
    sampler.stop()
    starts = [start for start, _ in gaps]
    costs = [_lose(gaps, bisect.bisect(starts, end), (began, end), mean) for began, end in spans]
    held = [(end - began) / 1e3 for began, end in spans]
    print(json.dumps({"seconds": seconds, "costs": costs, "held": held}), flush=True)
    os._exit(0)


def _lose(gaps: list[Span], place: int, span: Span, mean: float) -> float:
    """How many us the iterations take longer that a look falls into; `place` is behind the last."""
    near = [gap for gap in gaps[max(0, place - 4) : place] if gap[1] > span[0]]
    return sum(end - start - mean for start, end in near) / 1e3


def measure(options: argparse.Namespace, loop: str) -> None:
    words = [options.python, __file__, "--child", loop, f"--seconds={options.seconds}"]
    traces = "cuda,nvtx" if loop == "launches" else "nvtx"
    with tempfile.TemporaryDirectory() as folder:
        nsys = [options.nsys, "profile", "--sample=none", "--cpuctxsw=none", f"--trace={traces}"]
        command = [*nsys, f"--output={folder}/report", *words]
        environ = {**os.environ, "GPU_PROFILE_ANNOTATE": "none"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{loop}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    found = json.loads(lines[0])
    # The longest twentieth is of what else the machine did meanwhile.
    costs = sorted(found["costs"])
    costs = costs[: len(costs) - len(costs) // 20]
    rate, mean = len(found["costs"]) / found["seconds"], statistics.mean(costs)
    low, middle, high = statistics.quantiles(costs, n=4)
    held = statistics.median(found["held"])
    part = rate * mean / 1e4
    print(f"| {loop} | {rate:.0f} | {held:.0f} | {middle:.0f} ({low:.0f} to {high:.0f})", end="")
    print(f" | {mean:.0f} | {part:.2f} % |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--loop", action="append", choices=LOOPS)
    parser.add_argument("--child", choices=LOOPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(options.child, options.seconds)
    print("| loop | looks a second | us of work | us lost a look | mean | part of the time |")
    print("|---|---|---|---|---|---|")
    for loop in options.loop or LOOPS:
        measure(options, loop)


if __name__ == "__main__":
    main()
