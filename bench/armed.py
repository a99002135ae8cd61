"""What `profile --record manual` costs a program, and how soon `record` begins.

    .venv/bin/python bench/armed.py cost [--pairs 20] [--device cuda] [--nsys PATH] [--python PATH]
    .venv/bin/python bench/armed.py windows [--count 20] [--nsys PATH]

`cost` runs two programs in one process, plain and armed in turns: one of few large operations and
one of many small ones, as GPU-bound and host-bound trainings are. On the CPU a figure is the least
CPU time of a step, of all threads, which a busy machine changes least; on a GPU it is the median
time of a step, and with --workers the programs start side by side and are measured one at a time.
The interval of the ratios' median is that of order statistics, at 95 %. The Python needs torch.

`windows` arms two ranks of this machine and records them; it prints the seconds from the command to
the first event of each window, and between the ranks' first events.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.job import ProfileSpec  # noqa: E402 - the package of this checkout
from gpu_profile.nsys import options as nsys  # noqa: E402

PROFILE = ROOT / "Container-Root" / "agent" / "profile_ranks.py"
TRAINING = ROOT / "tests" / "live" / "nsys" / "training.py"
TORCH = ROOT / "tests" / "data" / "annotated" / "doubles" / "torch_double.py"
PROGRAM = """
import fcntl, json, sys, time, torch
device, lock = sys.argv[1:3]
torch.set_num_threads(1)
on_gpu = device == "cuda"
now = time.perf_counter if on_gpu else time.process_time
def measure(layers, width, rows, steps):
    net = [torch.nn.Linear(width, width) for _ in range(layers)]
    model = torch.nn.Sequential(*net).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(rows, width, device=device)
    times = []
    for number in range(steps + steps // 5):
        began = now()
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(now() - began)
    return times[steps // 5:]
if on_gpu:
    torch.zeros(1, device=device)
with open(lock, "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print(json.dumps({"times": [measure(*size) for size in json.loads(sys.argv[3])]}))
"""
PROGRAMS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "cpu": {"large operations": (3, 512, 32, 120), "small operations": (20, 16, 32, 800)},
    "cuda": {"large operations": (4, 4096, 2048, 60), "small operations": (20, 16, 32, 300)},
}
"""By device: layers, width, rows of the batch, and steps that are measured."""


def find_interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median: the 6th and 15th of 20 ratios."""
    margin = 0.98 * len(ratios) ** 0.5
    low = max(0, round(len(ratios) / 2 - margin) - 1)
    high = min(len(ratios) - 1, round(len(ratios) / 2 + margin))
    ordered = sorted(ratios)
    return ordered[low], ordered[high]


def measure_steps(options: argparse.Namespace, ways: Sequence[str]) -> list[float]:
    """The seconds of a step of each program, in one process."""
    sizes = json.dumps(list(PROGRAMS[options.device].values()))
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, str(PROFILE), f"--nsys={options.nsys}", f"--output={folder}", *ways]
        argv += ["--", options.python, "-c", PROGRAM, options.device, options.lock, sizes]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith('{"times"'))
    choose = min if options.device == "cpu" else statistics.median
    return [float(choose(times)) for times in json.loads(line)["times"]]


def measure_cost(options: argparse.Namespace) -> None:
    words = [options.nsys, "profile", "--help"]
    help_text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    armed = nsys.profile_options(
        ProfileSpec(record="manual"), help_text, gpus=options.device == "cuda"
    )
    ways = {"plain": ("--plain", "--annotate=none"), "armed": ("--record=manual", *armed)}

    def measure_pair(pair: int) -> list[float]:
        order = list(ways)[:: 1 if pair % 2 else -1]
        figures = {way: measure_steps(options, ways[way]) for way in order}
        print(f"{pair + 1}: {figures}", file=sys.stderr, flush=True)
        return [a / b for a, b in zip(figures["armed"], figures["plain"], strict=True)]

    with tempfile.NamedTemporaryFile() as lock, ThreadPoolExecutor(options.workers) as pool:
        options.lock = lock.name
        pairs = list(pool.map(measure_pair, range(options.pairs)))
    for place, name in enumerate(PROGRAMS[options.device]):
        ratios = [pair[place] for pair in pairs]
        low, high = find_interval(ratios)
        middle = statistics.median(ratios)
        print(f"{name}: {middle:.4f} ({low:.4f} to {high:.4f}), {len(ratios)} pairs", flush=True)


def find_first_event(report: Path, nsys_path: str) -> float:
    """Return when the first range of a report began, in seconds since the epoch."""
    database = report.with_suffix(".sqlite")
    if not database.exists():
        words = [nsys_path, "export", "--type=sqlite", f"--output={database}", str(report)]
        subprocess.run(words, check=True, capture_output=True)
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as file:
        (began,) = file.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
        (first,) = file.execute("SELECT min(start) FROM NVTX_EVENTS WHERE start > 0").fetchone()
    return float(began + first) / 1e9


def invoke(environ: Mapping[str, str], *words: str) -> str:
    argv = [str(ROOT / "inv"), *words]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def measure_windows(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site", "torch")
        site.mkdir(parents=True)
        shutil.copy(TORCH, site / "__init__.py")
        paths = {"PYTHONPATH": str(site.parent), "REPORT_DIR": folder, "NSYS": options.nsys}
        environ = {**os.environ, **paths}
        ranks = ("--gpus=0", "--ddp", "--processes=2", "--name=armed", "--record=manual")
        program = (sys.executable, str(TRAINING), "1000000", "0.002", "0")
        invoke(environ, "profile", "--on=host", *ranks, "--detach", "--", *program)
        try:
            while "step" not in invoke(environ, "logs", "--job=armed"):
                time.sleep(0.5)
            record_windows(options, environ, Path(folder))
        finally:
            invoke(environ, "stop", "--job=armed")


def record_windows(options: argparse.Namespace, environ: Mapping[str, str], folder: Path) -> None:
    delays, gaps = [], []
    for number in range(1, options.count + 1):
        asked = time.time()
        invoke(environ, "record", "--job=armed", "--seconds=0.5")
        reports = sorted(folder.glob(f"armed-*/rank*.{number}.nsys-rep"))
        firsts = [find_first_event(report, options.nsys) for report in reports]
        delays.append(max(firsts) - asked)
        gaps.append(max(firsts) - min(firsts))
        print(f"window {number}: {delays[-1]:.2f} s, {gaps[-1] * 1e3:.0f} ms", file=sys.stderr)
    for name, values in (("command to first event", delays), ("between the ranks", gaps)):
        print(f"{name}: {statistics.median(values):.3f} s, at most {max(values):.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("cost", "windows"))
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--nsys", default=shutil.which("nsys") or "nsys")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--device", choices=tuple(PROGRAMS), default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="programs that start at once")
    options = parser.parse_args()
    (measure_cost if options.what == "cost" else measure_windows)(options)


if __name__ == "__main__":
    main()
