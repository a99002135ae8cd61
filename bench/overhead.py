"""What each preset costs a training step, beside no nsys at all and the ancestor's flags.

    .venv/bin/python bench/overhead.py [--processes N] [--rounds 5] [--nsys PATH] [--python PATH]
                                       [--regime gpu-bound-32] [--only light,ancestor] [--json FILE]

The ways are interleaved, a round of all before the next, so that what else the machine does hits
each of them. A run's number is the 10th percentile and the median of rank 0's step times; shown
is the median over rounds, and its ratio to the runs without nsys of the same rounds.
What one mark costs, without a GPU: bench/mark_costs.py.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.job import PRESETS, ProfileSpec  # noqa: E402
from gpu_profile.nsys import options as nsys  # noqa: E402 - the package of this checkout

PROFILE = ROOT / "Container-Root" / "agent" / "profile_ranks.py"
TRAIN = ROOT / "Container-Root" / "samples" / "train.py"
SKIPPED_STEPS = 5
REGIMES: Mapping[str, tuple[str, ...]] = {
    "gpu-bound-64": ("--layers=12", "--width=1024", "--sequence=512", "--batch=64", "--steps=60"),
    "gpu-bound-32": ("--layers=12", "--width=1024", "--sequence=512", "--batch=32", "--steps=60"),
    "host-bound": ("--layers=12", "--width=256", "--sequence=128", "--batch=1", "--steps=200"),
}
# aws-do-eks gpu-profile's profile.sh, as far as a present nsys has it.
ANCESTOR = (
    "--trace=cuda,cublas,cudnn,nvtx,osrt,mpi,openacc,openmp",
    "--sample=process-tree",
    "--cudabacktrace=all",
    "--stats=false",
)


@dataclass(frozen=True)
class Step:
    """Step times of one run in milliseconds."""

    p10: float
    median: float


def ways(help_text: str, gpus: bool) -> dict[str, tuple[str, ...]]:
    """The options of profile.py, and through it of nsys, by name."""
    found: dict[str, tuple[str, ...]] = {"none": ("--plain",)}
    for preset in PRESETS:
        spec = nsys.sample_window(ProfileSpec(preset=preset), gpus=gpus)
        first = nsys.first_options(spec, help_text, gpus=gpus)
        options = nsys.profile_options(spec, help_text, gpus=gpus)
        found[preset] = (*(f"--first={option}" for option in first), *options)
    found["light rank 0"] = ("--ranks=0", *found["light"])
    found["light one flush"] = _replaced(found["light"], "--cuda-flush-interval=60000")
    found["light graph nodes"] = _replaced(found["light"], "--cuda-graph-trace=node")
    found["ancestor"] = ANCESTOR
    return found


def _replaced(options: tuple[str, ...], option: str) -> tuple[str, ...]:
    name = option.partition("=")[0]
    return (*(o for o in options if o.partition("=")[0] != name), option)


@dataclass(frozen=True)
class Known:
    """What was measured, by regime and way, kept in a file: a bench that was cut goes on there."""

    path: Path | None
    runs: dict[str, dict[str, list[Step]]]

    @classmethod
    def read(cls, path: Path | None) -> "Known":
        text = path.read_text() if path and path.exists() else "{}"
        return cls(path, json.loads(text, object_hook=_step))

    def of(self, regime: str, ways: Iterable[str]) -> dict[str, list[Step]]:
        runs = self.runs.setdefault(regime, {})
        return {way: runs.setdefault(way, []) for way in ways}

    def write(self) -> None:
        if self.path:
            self.path.write_text(json.dumps(self.runs, default=vars, indent=1) + "\n")


def _step(parsed: dict[str, Any]) -> Any:
    return Step(**parsed) if "p10" in parsed else parsed


class FailedRun(Exception):
    """A run that ended badly, without a report, or with too few step times; its whole output."""


def run(options: argparse.Namespace, way: Sequence[str], command: Sequence[str]) -> Step:
    with tempfile.TemporaryDirectory() as directory:
        argv = [sys.executable, str(PROFILE), f"--processes={options.processes}"]
        argv += [f"--nsys={options.nsys}", f"--output={directory}", *way, "--", *command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        said = f"{argv}, exit code {done.returncode}:\n{done.stdout}{done.stderr}"
        if done.returncode:
            raise FailedRun(said)
        if "--plain" not in way and not list(Path(directory).glob("rank0.*.nsys-rep")):
            raise FailedRun(f"no report: {said}")
    return measured(done.stdout)


def run_again(options: argparse.Namespace, way: Sequence[str], command: Sequence[str]) -> Step:
    """A run that fails once is shown whole and done again: ten minutes of others stay of use."""
    try:
        return run(options, way, command)
    except FailedRun as failed:
        print(f"FAILED, once more: {failed}", file=sys.stderr)
        return run(options, way, command)


def measured(output: str) -> Step:
    """From the JSON lines of rank 0, without the first steps after the window opened."""
    lines = [line for line in output.splitlines() if line.startswith("{") and "step_ms" in line]
    times = [float(json.loads(line)["step_ms"]) for line in lines][SKIPPED_STEPS:]
    if len(times) < 10:
        raise FailedRun(f"{len(times)} step times are too few:\n{output}")
    return Step(statistics.quantiles(times, n=10)[0], statistics.median(times))


def table(regime: str, runs: Mapping[str, Sequence[Step]]) -> str:
    rounds = min(len(steps) for steps in runs.values())
    bare = runs["none"][:rounds]
    lines = [
        f"{regime}, median of {rounds} rounds",
        "",
        "| nsys | p10 ms | median ms | p10 ratio | median ratio |",
        "|---|---|---|---|---|",
    ]
    for way, every in runs.items():
        steps = every[:rounds]
        p10 = statistics.median(step.p10 for step in steps)
        median = statistics.median(step.median for step in steps)
        r10 = statistics.median(s.p10 / b.p10 for s, b in zip(steps, bare, strict=True))
        rmed = statistics.median(s.median / b.median for s, b in zip(steps, bare, strict=True))
        lines.append(f"| {way} | {p10:.2f} | {median:.2f} | {r10:.3f}x | {rmed:.3f}x |")
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--regime", default=",".join(REGIMES))
    parser.add_argument("--only", default="", help="ways beside none, separated by commas")
    parser.add_argument("--json", type=Path, help="every run's numbers, and where to go on")
    parser.add_argument("--cpu", action="store_true", help="no GPU: only tries this program")
    parser.add_argument("command", nargs="*", help="instead of train.py: prints its JSON lines")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    asked = subprocess.run(
        [options.nsys, "profile", "--help"], capture_output=True, text=True, check=True
    )
    chosen = ways(asked.stdout, gpus=not options.cpu)
    wanted = {word.strip() for word in options.only.split(",") if word.strip()}
    chosen = {k: v for k, v in chosen.items() if not wanted or k in {*wanted, "none"}}
    known = Known.read(options.json)
    for regime in options.regime.split(","):
        train = options.command or [
            options.python,
            str(TRAIN),
            "--dtype=bfloat16",
            *REGIMES[regime],
        ]
        runs = known.of(regime, chosen)
        for number in range(options.rounds):
            for way, words in chosen.items():
                if number < len(runs[way]):
                    continue
                runs[way].append(run_again(options, words, train))
                known.write()
                median = runs[way][-1].median
                print(f"{regime} round {number + 1} {way}: {median:.2f} ms", file=sys.stderr)
        print(table(regime, runs), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
