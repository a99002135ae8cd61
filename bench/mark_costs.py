"""What one mark of --annotate and one event of nsys cost on this machine, without a GPU.

    .venv/bin/python bench/mark_costs.py [--rounds 5] [--nsys PATH] [--python PATH]

Each round starts one process a way, in turns; the Python needs torch. A figure is the time of the
thread (CPU), the least of its repetitions in a process, and the median over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARKS = ROOT / "Container-Root" / "agent" / "annotate"
LAYERS, REPEATS = 60, 40
PLAIN, STEPS, MODULES = "plain", "steps", "modules"
WAYS = {
    "plain": (PLAIN, ()),
    "steps": (STEPS, ("nvtx",)),
    "modules": (MODULES, ("nvtx",)),
    "nvtx": (PLAIN, ("nvtx",)),
    "osrt": (PLAIN, ("osrt",)),
}
"""Level of --annotate and what nsys traces, by the name of a way."""


def measure_us(call: Callable[[], object], calls: int) -> float:
    """The least CPU time of a call in us."""
    times = []
    for _ in range(REPEATS):
        began = time.thread_time_ns()
        for _ in range(calls):
            call()
        times.append((time.thread_time_ns() - began) / calls / 1e3)
    return min(times)


def run_child() -> None:
    import torch

    # The figure is this thread's CPU time: work on other threads would be missing in it.
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(16, 16) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(4, 16)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(20):
        step()
    figures = {"step": measure_us(step, 10), "sleep": measure_us(lambda: time.sleep(0), 200)}
    if "NVTX_INJECTION64_PATH" in os.environ:
        sys.path.insert(0, str(MARKS))
        figures |= measure_marks()
    print(json.dumps(figures))


def measure_marks() -> dict[str, float]:
    """A range, through the tool that listens in this process."""
    from gpu_profile_marks import nvtx
    from gpu_profile_marks.ranges import Mark, Ranges

    domain = Ranges.domain or nvtx.open_domain("bench")
    if domain is None:
        return {}
    ranges, mark = Ranges(), Mark("x", domain.make("x"))
    ranges.domain = domain

    def make_range() -> None:
        ranges.push(mark, mark)
        ranges.pop(mark)

    return {"range": measure_us(make_range, 200)}


def run_way(options: argparse.Namespace, way: str) -> dict[str, float]:
    level, traces = WAYS[way]
    environ = {**os.environ, "GPU_PROFILE_ANNOTATE": "none" if level == PLAIN else level}
    environ["PYTHONPATH"] = str(MARKS)
    command = [options.python, __file__, "--child"]
    with tempfile.TemporaryDirectory() as folder:
        if traces:
            nsys = [options.nsys, "profile", "--sample=none", "--cpuctxsw=none"]
            command = [*nsys, f"--trace={','.join(traces)}", f"--output={folder}/report", *command]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return {name: float(value) for name, value in json.loads(line).items()}


def print_table(runs: dict[str, list[dict[str, float]]]) -> None:
    def of(way: str, name: str) -> float:
        return statistics.median(run.get(name, float("nan")) for run in runs[way])

    base = of("plain", "step")
    rows = {
        "a step, at `steps`": of("steps", "step") - base,
        "a module and step, at `modules`": (of("modules", "step") - base) / LAYERS,
        "a range (push and pop)": of("nvtx", "range"),
        "a call of the operating system": of("osrt", "sleep") - of("plain", "sleep"),
    }
    print("| what | us |\n|---|---|")
    for what, us in rows.items():
        print(f"| {what} | {us:.1f} |")
    print(f"\na step of {LAYERS} layers without marks: {base:.0f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child()
        return
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, results in runs.items():
            results.append(run_way(options, way))
    print_table(runs)


if __name__ == "__main__":
    main()
