"""What each option of nsys and each mark costs a training step, in turns, beside torch.profiler.

    .venv/bin/python bench/overhead.py [--rounds 3] [--within SECONDS] [--nsys PATH] [--python PATH]
                                       [--only light,modules] [--json FILE] [--cpu --short]

The loops (bench/overhead_loops.py) are launch-bound, balanced, GPU-bound, and replays of a CUDA
graph; the Python needs torch. Each round starts one process a way, two without a profiler, and
every other round in the opposite order. A process imports torch and has its report written while
another one is measured; the GPU is used by one at a time. A figure is the median of a process's
blocks; shown is the median over rounds, as a ratio to that without a profiler.
`control` are steps after the end of a recording that ended by default.
What one mark costs, without a GPU: bench/mark_costs.py.
"""

import argparse
import concurrent.futures
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.job import ProfileSpec  # noqa: E402 - the package of this checkout
from gpu_profile.nsys import options as nsys  # noqa: E402

PROFILE = ROOT / "Container-Root" / "agent" / "profile_ranks.py"
LOOPS = ROOT / "bench" / "overhead_loops.py"
PLAIN, CONTROL, TORCH = "none", "control", "torch.profiler, CUDA only"
MARKS, MODULES = "light", "light, --annotate modules"
NO_MARKS = "light, --annotate none"
AT_ONCE = 4
FIRST = 8  # ways that are measured before the others
LONGEST_S = 120


@dataclass(frozen=True)
class Way:
    """The words for profile_ranks.py, and what the loops do (`--way`)."""

    words: tuple[str, ...]
    loops: str = "plain"


def list_ways(help_text: str, gpus: bool) -> dict[str, Way]:
    """Return the ways by name; an option that this nsys lacks is left out."""
    light = nsys.profile_options(ProfileSpec(), help_text, gpus=gpus)
    full = nsys.profile_options(ProfileSpec(preset="full"), help_text, gpus=gpus)
    first = nsys.first_options(ProfileSpec(preset="full"), help_text, gpus=gpus)
    none, to_end = "--annotate=none", "--whole"
    unrecorded = ("--plain", none)
    ways = {
        PLAIN: Way(unrecorded),
        CONTROL: Way(light, "control"),
        MARKS: Way((*light, to_end)),
        MODULES: Way((*light, "--annotate=modules", to_end)),
        TORCH: Way(unrecorded, "torch"),
        NO_MARKS: Way((*light, none)),
        "nvtx alone, no ranges": Way(_replace(light, "--trace=nvtx", none)),
        "cuda alone": Way(_replace(light, "--trace=cuda", none)),
    }
    added = (
        "--trace=cuda,nvtx,osrt",
        "--cuda-event-trace=true",
        "--cuda-graph-trace=graph",
        "--cuda-graph-trace=node",
        "--cuda-memory-usage=true",
        "--sample=process-tree",
        "--cpuctxsw=process-tree",
        "--python-sampling=true",
        "--cuda-flush-interval=100",
    )
    names = (word[2:].partition("=")[0] for word in added)
    known = [word for word, name in zip(added, names, strict=True) if f"--{name}" in help_text]
    ways |= {f"… {word}": Way(_replace(light, word, none)) for word in known}
    ways["full"] = Way((*(f"--first={word}" for word in first), *full, to_end))
    return ways


def _replace(options: Sequence[str], option: str, *more: str) -> tuple[str, ...]:
    name = option.partition("=")[0]
    return (*(word for word in options if word.partition("=")[0] != name), option, *more)


def run_way(options: argparse.Namespace, way: Way, lock: Path) -> dict[str, Any]:
    """Return what the loops print; "failed" where they print nothing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, str(PROFILE), f"--nsys={options.nsys}", f"--output={folder}"]
        argv += [*way.words, "--", options.python, str(LOOPS), f"--lock={lock}"]
        argv += [f"--way={way.loops}", f"--device={'cpu' if options.cpu else 'cuda'}"]
        argv += ["--short"] * options.short
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, check=False, timeout=LONGEST_S
            )
        except subprocess.TimeoutExpired as error:
            return {"failed": f"no end in {error.timeout:.0f} s"}
        reports = list(Path(folder).glob("rank0.*.nsys-rep"))
        megabytes = sum(report.stat().st_size for report in reports) / 1e6
    facts = next((line for line in done.stdout.splitlines() if line.startswith('{"')), "")
    if done.returncode or not facts or not (reports or "--plain" in way.words):
        return {"failed": f"exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}"}
    return {**json.loads(facts), "megabytes": megabytes, "seconds": time.monotonic() - began}


def measure(options: argparse.Namespace, ways: Mapping[str, Way]) -> dict[str, list[Any]]:
    """Return the results by way and round."""
    end = time.monotonic() + options.within
    runs: dict[str, list[Any]] = {name: [] for name in ways}

    def run_in_time(name: str) -> None:
        if time.monotonic() < end:
            result = run_way(options, ways[name], lock)
            runs[name].append(result)
            print(name, json.dumps(result.get("median_ms", result)), file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder, "lock")
        for number in range(options.rounds):
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(run_in_time, list_order(list(ways), number)))
            if options.json:
                options.json.write_text(json.dumps(runs, indent=1) + "\n")
    return runs


def list_order(names: Sequence[str], number: int) -> list[str]:
    """Return the ways of a round: the first ones, those without a profiler again, and in every
    other round the others.
    """
    step = -1 if number % 2 else 1
    again = [name for name in (PLAIN, CONTROL) if name in names]
    others = names[FIRST:] if number % 2 else ()
    return [*names[:FIRST][::step], *again[::step], *others]


def find_ms(runs: Sequence[Any], loop: str) -> float:
    """Return the median over the rounds that did not fail; NaN without one."""
    times = [run["median_ms"][loop] for run in runs if "median_ms" in run]
    return statistics.median(times) if times else float("nan")


def list_rows(runs: Mapping[str, Sequence[Any]]) -> list[str]:
    loops = list(next(run["median_ms"] for run in runs[PLAIN] if "median_ms" in run))
    rows = [f"| nsys | {' | '.join(loops)} |", f"|---|{'---|' * len(loops)}"]
    for name, each in runs.items():
        cells = []
        for loop in loops:
            ms, base = find_ms(each, loop), find_ms(runs[PLAIN], loop)
            cells.append(f"{ms:.2f} ms" if name == PLAIN else f"{ms / base:.3f}x")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def list_costs(runs: Mapping[str, Sequence[Any]], loop: str) -> list[str]:
    """Return the cost of one call, module and step, by the differences between ways."""
    events = next((run["events"] for run in runs.get(TORCH, ()) if "events" in run), None)
    if events is None:
        return []
    modules = next(run["modules"] for run in runs[PLAIN] if "modules" in run)[loop]
    calls, kernels = events[loop]["calls"], events[loop]["gpu"]

    def us(way: str, base: str) -> float:
        return 1e3 * (find_ms(runs.get(way, ()), loop) - find_ms(runs.get(base, ()), loop))

    return [
        f"{loop}: {calls:.0f} calls, {kernels:.0f} kernels, {modules} modules a step, GPU busy"
        f" {events[loop]['busy_ms']:.2f} ms",
        f"a call of CUDA, nsys: {us(NO_MARKS, PLAIN) / max(calls, 1):.2f} us",
        f"a call of CUDA, torch.profiler: {us(TORCH, PLAIN) / max(calls, 1):.2f} us",
        f"the marks of a step: {us(MARKS, NO_MARKS):.0f} us",
        f"a module and step: {us(MODULES, MARKS) / modules:.1f} us",
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--within", type=float, default=3600, help="seconds; no start after them")
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--only", default="", help="ways beside none, separated by |")
    parser.add_argument("--json", type=Path, help="every run's numbers")
    parser.add_argument("--cpu", action="store_true", help="no GPU: only tries this program")
    parser.add_argument("--short", action="store_true", help="few steps: only tries this program")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    help_words = [options.nsys, "profile", "--help"]
    nsys_help = subprocess.run(help_words, capture_output=True, text=True, check=True).stdout
    ways = list_ways(nsys_help, gpus=not options.cpu)
    wanted = {word.strip() for word in options.only.split("|") if word.strip()}
    ways = {name: way for name, way in ways.items() if not wanted or name in {*wanted, PLAIN}}
    runs = measure(options, ways)
    print("\n".join(list_rows(runs)))
    for loop in ("launch-bound", "balanced", "GPU-bound"):
        print("\n".join(["", *list_costs(runs, loop)]))
    for name, each in runs.items():
        for run in each:
            if "failed" in run:
                print(f"\n{name} FAILED: {run['failed']}")


if __name__ == "__main__":
    main()
