"""What `profile --record manual` costs a program, and how soon `record` begins.

    .venv/bin/python bench/armed.py cost [--rounds 20] [--device cuda] [--nsys PATH] [--python PATH]
                                         [--after-window]
    .venv/bin/python bench/armed.py windows [--count 20] [--nsys PATH]

`cost` has a process or two of each way: plain, armed, armed with torch.profiler in place of nsys,
armed without marks, and armed without marks and CUDA's calls. With --after-window each armed one
has recorded a window before. They start side by side, and then take turns on the same two cores: in
a round each makes steps for some time, several times, one process at a time. Of four programs: one
of few large operations and one of many small ones, as GPU-bound and launch-bound trainings are, one
of Python between launches, as host-bound ones are, and one of 100 launches and no more. A tenth of
a turn's steps are faster than its figure, by their CPU time without a GPU, and by the clock with
one; the median over the turns is that of the round. A way's figure is the mean of its processes,
and a ratio is to plain in the same round. The interval of the ratios' median is that of order
statistics, at 95 %. What two plain processes differ by is printed, too. The Python needs torch.

`windows` arms two ranks of this machine and records them; it prints the seconds from the command to
the first event of each window, and between the ranks' first events.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.job import ProfileSpec  # noqa: E402 - the package of this checkout
from gpu_profile.nsys import options as nsys  # noqa: E402

PROFILE = ROOT / "Container-Root" / "agent" / "profile_ranks.py"
TRAINING = ROOT / "tests" / "live" / "nsys" / "training.py"
TORCH = ROOT / "tests" / "data" / "annotated" / "doubles" / "torch_double.py"
PROGRAM = """
import json, os, socket, sys, time, torch
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-2:])  # one core is the backward pass's
name, address, device, sizes = *sys.argv[1:4], json.loads(sys.argv[4])
torch.set_num_threads(1)
on_gpu = device == "cuda"
now = time.perf_counter if on_gpu else time.process_time
def make(layers, width, rows, passes=0):
    if not width:
        one = torch.zeros(rows, device=device)
        def launch():
            for _ in range(layers):
                for _ in range(passes):
                    pass
                one.fill_(1)
            if on_gpu:
                torch.cuda.synchronize()
        return launch
    net = [torch.nn.Linear(width, width) for _ in range(layers)]
    model = torch.nn.Sequential(*net).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(rows, width, device=device)
    def step():
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
    return step
def measure(step, seconds):
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = now()
        step()
        times.append(now() - began)
    return sorted(times)[len(times) // 10]
steps = [make(*size) for size in sizes]
for step in steps:
    measure(step, 1)
line = socket.socket(socket.AF_UNIX)
line.connect(address)
with line.makefile("rw") as asked:
    print(name, file=asked, flush=True)
    for text in asked:
        print(json.dumps([measure(step, float(text)) for step in steps]), file=asked, flush=True)
"""
PROGRAMS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "cpu": {"large operations": (3, 512, 32), "small operations": (20, 16, 32)},
    "cuda": {
        "large operations": (4, 4096, 2048),
        "small operations": (20, 16, 32),
        "Python between launches": (40, 0, 16, 2000),
        "launches": (100, 0, 16),
    },
}
"""By device: layers, width, and rows of the batch. Without a width: launches, their elements, and
how often a loop of Python goes round before each."""
START_S = 180.0
Figures = Mapping[str, Sequence[float]]
PLAIN = "plain"


def find_interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median: the 6th and 15th of 20 ratios."""
    margin = 0.98 * len(ratios) ** 0.5
    low = max(0, round(len(ratios) / 2 - margin) - 1)
    high = min(len(ratios) - 1, round(len(ratios) / 2 + margin))
    ordered = sorted(ratios)
    return ordered[low], ordered[high]


def list_ways(options: argparse.Namespace) -> Mapping[str, Sequence[str]]:
    """Return the options of profile_ranks.py of each way."""
    words = [options.nsys, "profile", "--help"]
    help_text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    armed = nsys.profile_options(
        ProfileSpec(record="manual"), help_text, gpus=options.device == "cuda"
    )
    nvtx = ["--trace=nvtx" if word.startswith("--trace=") else word for word in armed]
    return {
        PLAIN: ("--plain", "--annotate=none"),
        "armed": ("--record=manual", *armed),
        "armed-with-torch": ("--record=manual", "--with=torch"),
        "armed-without-marks": ("--record=manual", "--annotate=none", *armed),
        "armed-without-marks-and-cuda": ("--record=manual", "--annotate=none", *nvtx),
    }


@contextlib.contextmanager
def running(options: argparse.Namespace) -> Iterator[Mapping[str, TextIO]]:
    """Yield a line to each program, by its way and number: `armed#1`."""
    sizes = json.dumps(list(PROGRAMS[options.device].values()))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(f"{folder}/line")
        listener.listen(64)
        listener.settimeout(START_S)
        starts = {
            f"{way}#{copy}": words
            for copy in range(options.copies)
            for way, words in list_ways(options).items()
        }
        for name, words in starts.items():
            ours = [f"--nsys={options.nsys}", f"--output={folder}/{name}", *words, "--"]
            argv = [sys.executable, str(PROFILE), *ours, options.python, "-c", PROGRAM, name]
            program = subprocess.Popen([*argv, f"{folder}/line", options.device, sizes])
            opened.callback(program.wait)
        lines: dict[str, TextIO] = {}
        while len(lines) < len(starts):
            stream = opened.enter_context(listener.accept()[0]).makefile("rw")
            lines[stream.readline().strip()] = opened.enter_context(stream)
        if options.after_window:
            for name in (name for name in lines if not name.startswith(PLAIN)):
                record_first(lines[name], Path(folder, name))
        yield lines


def record_first(line: TextIO, folder: Path) -> None:
    """Have a process make steps while a window of it is recorded."""
    script = [sys.executable, str(PROFILE.with_name("record_window.py"))]
    words = ("request", str(folder), "--seconds=0.5", "--lead=0.1")
    subprocess.run([*script, *words], check=True, capture_output=True)
    print(2.0, file=line, flush=True)
    line.readline()
    subprocess.run([*script, "await", str(folder), "1"], check=True, capture_output=True)
    (answer,) = (folder / "windows").glob("answer-1-*.json")
    print(folder.name, answer.read_text(), file=sys.stderr, flush=True)


def measure_round(lines: Mapping[str, TextIO], options: argparse.Namespace) -> Figures:
    """Return the seconds of a step of each program, by way and number."""
    figures: dict[str, list[list[float]]] = {name: [] for name in lines}
    for turn in range(options.turns):
        for name in sorted(lines, reverse=turn % 2 == 1):
            print(options.seconds, file=lines[name], flush=True)
            figures[name].append(json.loads(lines[name].readline()))
    return {
        name: [statistics.median(each) for each in zip(*turns, strict=True)]
        for name, turns in figures.items()
    }


def measure_cost(options: argparse.Namespace) -> None:
    rounds = []
    with running(options) as lines:
        for _ in range(options.rounds):
            rounds.append(measure_round(lines, options))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    for place, program in enumerate(PROGRAMS[options.device]):
        for way in list_ways(options):
            print_ratios(f"{program}, {way}", rounds, place, (way, PLAIN))
        if options.copies > 1:
            print_ratios(f"{program}, plain to plain", rounds, place, (f"{PLAIN}#1", f"{PLAIN}#0"))


def print_ratios(title: str, rounds: Sequence[Figures], place: int, ways: tuple[str, str]) -> None:
    def mean(figures: Figures, way: str) -> float:
        names = [name for name in figures if way in (name, name.partition("#")[0])]
        return statistics.mean(figures[name][place] for name in names)

    ratios = [mean(figures, ways[0]) / mean(figures, ways[1]) for figures in rounds]
    low, high = find_interval(ratios)
    step = 1e3 * statistics.median(mean(figures, ways[0]) for figures in rounds)
    middle = statistics.median(ratios)
    print(f"{title}: {middle:.4f} ({low:.4f} to {high:.4f}), a step {step:.3f} ms", flush=True)


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
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5, help="of each process in a round")
    parser.add_argument("--seconds", type=float, default=0.05, help="of each program in a turn")
    parser.add_argument("--copies", type=int, default=2, help="processes of each way")
    parser.add_argument("--after-window", action="store_true")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--nsys", default=shutil.which("nsys") or "nsys")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--device", choices=tuple(PROGRAMS), default="cpu")
    options = parser.parse_args()
    (measure_cost if options.what == "cost" else measure_windows)(options)


if __name__ == "__main__":
    main()
