"""What the verbs add to the tools below them, in one run:

    .venv/bin/python bench/verbs_bench.py [--rounds 5]

`gpu-profile --version`, `--list` and a verb's help beside a bare Invoke program of as many tasks,
in seconds of CPU, which other load on the machine hardly changes. In wall time: `invoke build` with
nothing to do beside its own `docker buildx build`; `invoke --list` beside a bare tasks.py of as
many tasks; `invoke profile` beside the same `docker run`, without and with the reading of its
reports. Pairs in turn, the median of each shown. Needs the engine and the image
that `invoke build` makes; `--only start` needs neither.
"""

import argparse
import resource
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile import process  # noqa: E402
from gpu_profile.cli.table import VERBS  # noqa: E402
from gpu_profile.command import Command  # noqa: E402
from gpu_profile.printable import PROGRAM  # noqa: E402
from gpu_profile.runs import record  # noqa: E402

INVOKE = (sys.executable, "-m", "invoke")
BARE = "from invoke import task\n" + "\n".join(
    f"@task\ndef verb{number}(c):\n    '''Does it.'''\n" for number in range(len(VERBS))
)

BARE_CONSOLE = """
from invoke import Collection, Program
tasks = [value for name, value in list(globals().items()) if name.startswith("verb")]
Program("1", Collection(*tasks), "bare", "bare", binary_names=["bare"]).run()
"""
CONSOLE = "from gpu_profile.cli.tasks import main\nmain()\n"
Measure = Callable[[int, Path], tuple[float, float]]


def seconds(
    argv: tuple[str, ...], directory: Path = ROOT, env: Mapping[str, str] | None = None
) -> float:
    """Wall time of one run that must succeed."""
    command = Command(argv=("env", "--chdir", str(directory), *argv), env=env or {})
    started = time.monotonic()
    done = process.run(command)
    if done.returncode:
        raise SystemExit(f"{command} failed: {done.last_line}")
    return time.monotonic() - started


def cpu_seconds(argv: tuple[str, ...], directory: Path) -> float:
    """User and system time of one run that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds(argv, directory)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pairs(
    rounds: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> tuple[float, float]:
    """Medians of both, run in turn after one of each that does not count."""
    ours(), theirs()
    times = [(ours(), theirs()) for _ in range(rounds)]
    first, second = zip(*times, strict=True)
    return statistics.median(first), statistics.median(second)


def listing(rounds: int, place: Path) -> tuple[float, float]:
    (place / "tasks.py").write_text(BARE, encoding="utf-8")
    return pairs(
        rounds,
        lambda: seconds((*INVOKE, "--list")),
        lambda: seconds((*INVOKE, "--list"), place),
    )


def _start(words: tuple[str, ...], bare_words: tuple[str, ...]) -> Measure:
    """Return the measurement of `gpu-profile WORDS` beside a bare Invoke program's words."""

    def measure(rounds: int, place: Path) -> tuple[float, float]:
        ours, bare = place / PROGRAM, place / "bare"
        ours.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{CONSOLE}")
        bare.write_text(f"{BARE}{BARE_CONSOLE}")
        return pairs(
            rounds,
            lambda: cpu_seconds((sys.executable, str(ours), *words), place),
            lambda: cpu_seconds((sys.executable, str(bare), *bare_words), place),
        )

    return measure


def building(rounds: int, place: Path) -> tuple[float, float]:
    """The raw build is what --dry-run prints, its Dockerfile written beside."""
    dockerfile = place / "Dockerfile"
    dockerfile.write_text(_said("render"), encoding="utf-8")
    said = _said("build", "--unlocked", "--dry-run").splitlines()
    line = next(line for line in said if " buildx build --file=- " in line)
    words = [word for word in shlex.split(line) if not word.startswith(("--file=", "--label="))]
    start = words.index("docker")
    env = dict(word.split("=", 1) for word in words[:start])
    raw = ("docker", "buildx", "build", f"--file={dockerfile}", *words[start + 3 :])
    raw = tuple(word for word in raw if "***" not in word and "pip_conf" not in word)
    # Under its own tag: the image's labels keep what `auto` was decided to be.
    raw = tuple("--tag=gpu-profile:bench" if w.startswith("--tag=") else w for w in raw)
    env = {name: value for name, value in env.items() if value != "***"}
    seconds(raw, env=env)
    return pairs(
        rounds,
        lambda: seconds((*INVOKE, "build", "--unlocked")),
        lambda: seconds(raw, env=env),
    )


def profiling(rounds: int, place: Path) -> tuple[float, float]:
    """To the end of the job: exporting, counting and reading its reports is left out of ours, as
    the raw run leaves it undone."""
    profile = _profile(place)

    def ours() -> float:
        started = time.time()
        profile()
        directory = record.find_run(place)
        recorded = (directory / record.RUN_FILE).stat().st_mtime  # once they were counted
        return recorded - started - record.load_run(directory).seconds["fetch and validate"]

    ours()
    raw = _raw_profile(record.load_run(record.find_run(place)))
    return pairs(rounds, ours, lambda: seconds(raw))


def profiling_and_reading(rounds: int, place: Path) -> tuple[float, float]:
    """To the tables on the screen, on the raw side by nsys' own --stats."""
    profile = _profile(place)
    profile()
    raw = _raw_profile(record.load_run(record.find_run(place)), "--stats=true")
    return pairs(rounds, profile, lambda: seconds(raw))


def _profile(place: Path) -> Callable[[], float]:
    return lambda: seconds((*INVOKE, "profile", "--ddp"), env={"REPORT_DIR": str(place)})


def _raw_profile(run: record.RunRecord, *more: str) -> tuple[str, ...]:
    """The options that ours chose; the reports stay in the container."""
    return (
        *("docker", "run", "--rm", "--shm-size=1g", run.image, "python3", "/profile.py"),
        *(f"--processes={len(run.ranks)}", "--output=/tmp/out", *run.nsys, *more),
        *("--", *run.command),
    )


def _said(*words: str, **env: str) -> str:
    done = process.run(Command(argv=("env", "--chdir", str(ROOT), *INVOKE, *words), env=env))
    if done.returncode:
        raise SystemExit(f"invoke {shlex.join(words)} failed: {done.last_line}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name begins so, such as `start`")
    words = parser.parse_args()
    measures: dict[str, Measure] = {
        "start: gpu-profile --version, CPU": _start(("--version",), ("--version",)),
        "start: gpu-profile --list, CPU": _start(("--list",), ("--list",)),
        "start: gpu-profile build --help, CPU": _start(("build", "--help"), ("verb1", "--help")),
        "listing": listing,
        "building": building,
        "profiling": profiling,
        "profiling and reading": profiling_and_reading,
    }
    print("| what | ours s | alone s | ratio | more by s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for name, measure in measures.items():
            if name.startswith(words.only):
                ours, alone = measure(words.rounds, Path(directory))
                row = f"{ours:.3f} | {alone:.3f} | {ours / alone:.2f} | {ours - alone:+.3f}"
                print(f"| {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
