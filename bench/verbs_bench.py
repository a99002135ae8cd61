"""What the verbs add to the tools below them, in one run:

    .venv/bin/python bench/verbs_bench.py [--rounds 5]

`invoke build` with nothing to do beside its own `docker buildx build`; `invoke --list` beside a
bare tasks.py of as many tasks; `invoke profile` beside the same `docker run`, without and with the
reading of its reports. Pairs in turn, the median of each shown. Needs the engine and the image
that `invoke build` makes.
"""

import argparse
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
from gpu_profile.runs import record  # noqa: E402

INVOKE = (sys.executable, "-m", "invoke")
BARE = "from invoke import task\n" + "\n".join(
    f"@task\ndef verb{number}(c):\n    '''Does it.'''\n" for number in range(len(VERBS))
)


def seconds(
    argv: tuple[str, ...], directory: Path = ROOT, env: Mapping[str, str] | None = None
) -> float:
    """Wall time of one run that must succeed."""
    command = Command(argv=("env", "--chdir", str(directory), *argv), env=env or {})
    started = time.monotonic()
    done = process.run(command)
    if done.returncode:
        raise SystemExit(f"{command} failed: {done.said}")
    return time.monotonic() - started


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
        raise SystemExit(f"invoke {shlex.join(words)} failed: {done.said}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("| what | ours s | alone s | ratio | more by s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for measure in (listing, building, profiling, profiling_and_reading):
            ours, alone = measure(rounds, Path(directory))
            row = f"{ours:.2f} | {alone:.2f} | {ours / alone:.2f} | {ours - alone:+.2f}"
            print(f"| {measure.__name__} | {row} |", flush=True)


if __name__ == "__main__":
    main()
