"""What `profile --record manual` costs a program.

    .venv/bin/python bench/armed.py [--rounds 20] [--device cuda] [--nsys PATH] [--python PATH]
                                    [--after-window] [--program NAME] [--way NAME]

It has a process or two of each way: plain, armed, armed with torch.profiler in place of nsys,
armed without marks, and armed without marks and CUDA's calls. With --after-window each armed one
has recorded a window before. They start side by side, and then take turns on the same two cores: in
a round each makes steps for some time, several times, one process at a time. Of four programs: one
of few large operations and one of many small ones, as GPU-bound and launch-bound trainings are, one
of Python between launches, as host-bound ones are, and one of 100 launches and no more. A turn has
two figures. By the clock (by CPU time without a GPU): a tenth of its steps are faster. CPU time of
the thread: the mean of its steps. The median over the turns is that of the round. A ratio is that
of a process to the plain one of its number in the same round. The interval of the ratios' median is
a bootstrap, at 95 %, which draws processes and rounds: the same loop takes 1 to 3 % longer in one
process than in another, so that more rounds alone would state too narrow a one. What two plain
processes differ by is printed, too. The Python needs torch.
"""

import argparse
import contextlib
import json
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.job import ProfileSpec  # noqa: E402 - the package of this checkout
from gpu_profile.nsys import options as nsys  # noqa: E402

PROFILE = ROOT / "Container-Root" / "agent" / "profile_ranks.py"
PROGRAM = """
import json, os, socket, sys, time, torch
name, address, device, sizes, cores = *sys.argv[1:4], *map(json.loads, sys.argv[4:])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
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
    step()
    cpu = time.thread_time()
    while time.monotonic() < end or not times:
        began = now()
        step()
        times.append(now() - began)
    return sorted(times)[len(times) // 10], (time.thread_time() - cpu) / len(times)
steps = [make(*size) for size in sizes]
for step in steps:
    measure(step, 1)
line = socket.socket(socket.AF_UNIX)
line.connect(address)
with line.makefile("rw") as stream:
    print(name, file=stream, flush=True)
    for text in stream:
        print(json.dumps([measure(step, float(text)) for step in steps]), file=stream, flush=True)
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
STEPPING = "small operations"
START_S = 180.0
Figures = Mapping[str, Sequence[Sequence[float]]]
"""Of a round: by process, each program's seconds of a step, by the clock and of CPU."""
CLOCKS = ("clock", "thread's CPU")
PLAIN = "plain"
DRAWS = 1000


def find_interval(ratios: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the 95 % interval of the median of all ratios, which are by process and round."""
    draw = random.Random(1)
    medians = []
    for _ in range(DRAWS):
        rounds = draw.choices(range(len(ratios[0])), k=len(ratios[0]))
        drawn = draw.choices(ratios, k=len(ratios))
        medians.append(statistics.median(of_one[each] for of_one in drawn for each in rounds))
    medians.sort()
    return medians[DRAWS // 40], medians[-1 - DRAWS // 40]


def choose_programs(options: argparse.Namespace) -> Mapping[str, Sequence[int]]:
    programs = PROGRAMS[options.device]
    # torch.profiler begins a window with a step, which the loops of launches do not have.
    wanted = {options.program, STEPPING} if options.after_window else {options.program}
    return {name: size for name, size in programs.items() if not options.program or name in wanted}


def list_ways(options: argparse.Namespace) -> Mapping[str, Sequence[str]]:
    """Return the options of profile_ranks.py of each way."""
    words = [options.nsys, "profile", "--help"]
    help_text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    armed = nsys.profile_options(
        ProfileSpec(record="manual"), help_text, gpus=options.device == "cuda"
    )
    nvtx = ["--trace=nvtx" if word.startswith("--trace=") else word for word in armed]
    ways: Mapping[str, Sequence[str]] = {
        PLAIN: ("--plain", "--annotate=none"),
        "armed": ("--record=manual", *armed),
        "armed-with-torch": ("--record=manual", "--with=torch"),
        "armed-without-marks": ("--record=manual", "--annotate=none", *armed),
        "armed-without-marks-and-cuda": ("--record=manual", "--annotate=none", *nvtx),
    }
    return {way: ways[way] for way in ways if way in (PLAIN, *(options.way or ways))}


@contextlib.contextmanager
def running(options: argparse.Namespace) -> Iterator[Mapping[str, TextIO]]:
    """Yield a line to each program, by its way and number: `armed#1`."""
    sizes = json.dumps(list(choose_programs(options).values()))
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
            place = (f"{folder}/line", options.device, sizes, str(options.cores))
            program = subprocess.Popen([*argv, *place])
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
    figures: dict[str, list[list[list[float]]]] = {name: [] for name in lines}
    for turn in range(options.turns):
        for name in sorted(lines, reverse=turn % 2 == 1):
            print(options.seconds, file=lines[name], flush=True)
            figures[name].append(json.loads(lines[name].readline()))
    return {
        name: [
            [statistics.median(clock) for clock in zip(*program, strict=True)]
            for program in zip(*turns, strict=True)
        ]
        for name, turns in figures.items()
    }


def measure_cost(options: argparse.Namespace) -> None:
    rounds = []
    with running(options) as lines:
        for _ in range(options.rounds):
            rounds.append(measure_round(lines, options))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    for place, program in enumerate(choose_programs(options)):
        for clock, words in enumerate(CLOCKS):
            for way in list(list_ways(options))[1:]:
                pairs = [(f"{way}#{copy}", f"{PLAIN}#{copy}") for copy in range(options.copies)]
                print_ratios(f"{program}, {way}, {words}", rounds, (place, clock), pairs)
            others = [(copy + 1) % options.copies for copy in range(options.copies)]
            pairs = [(f"{PLAIN}#{copy}", f"{PLAIN}#{other}") for copy, other in enumerate(others)]
            print_ratios(f"{program}, plain to plain, {words}", rounds, (place, clock), pairs)


def print_ratios(
    title: str,
    rounds: Sequence[Figures],
    place: tuple[int, int],
    pairs: Sequence[tuple[str, str]],
) -> None:
    """Print the median ratio of pairs of processes. `place` is of the program and the clock."""

    def read(figures: Figures, name: str) -> float:
        return figures[name][place[0]][place[1]]

    ratios = [[read(each, ours) / read(each, base) for each in rounds] for ours, base in pairs]
    low, high = find_interval(ratios)
    step = 1e3 * statistics.median(read(each, ours) for each in rounds for ours, _ in pairs)
    middle = statistics.median(ratio for of_one in ratios for ratio in of_one)
    by_pair = " ".join(f"{statistics.median(of_one):.3f}" for of_one in ratios)
    print(f"{title}: {middle:.4f} ({low:.4f} to {high:.4f}), a step {step:.3f} ms; {by_pair}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5, help="of each process in a round")
    parser.add_argument("--seconds", type=float, default=0.05, help="of each program in a turn")
    parser.add_argument("--copies", type=int, default=2, help="processes of each way")
    parser.add_argument("--cores", type=int, default=2, help="1 without a backward pass")
    parser.add_argument("--program", default="", help="one of those of the device")
    parser.add_argument("--way", action="append", help="beside plain; may be repeated")
    parser.add_argument("--after-window", action="store_true")
    parser.add_argument("--nsys", default=shutil.which("nsys") or "nsys")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--device", choices=tuple(PROGRAMS), default="cpu")
    measure_cost(parser.parse_args())


if __name__ == "__main__":
    main()
