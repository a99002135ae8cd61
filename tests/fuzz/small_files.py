"""Damaged and hostile .env, lock and run.json: each is read, or refused in one line.

python -m tests.fuzz.small_files --count 3000
"""

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gpu_profile.cli.options.jobs import ReportsOptions
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import GpuProfileError
from gpu_profile.lock.file import apply_lock, read_lock
from gpu_profile.runs.outcome import describe_end
from gpu_profile.runs.record import RUN_FILE, ReportSummary, RunRecord, load_run, save_run
from gpu_profile.settings.settings import KEYS, Settings, load_settings
from gpu_profile.settings.template import render_template
from gpu_profile.settings.update_file import update_text
from gpu_profile.verbs.jobs.reports import reports

VALUES = (
    *("", "x", "'", '"', "`id`", "$(id)", "${HOME}", "$HOME", "a b", "a#b", "# x", "\\", "\\n"),
    *("é", "\0", "\u2028", "~", "~nouser/x", "/", "-1", "1e9", "true", "TRUE", "None", "null"),
    *("[]", "{}", "a=b", "=", "a\rb", "\ufeff", "'a", "\"a'", "x" * 100_000, "\x1b[31m", "\t"),
    *("https://u:p@h/x", "%s", "%(x)s", "../..", "0x10", "\uff11\uff12", "'it\\'s'"),
)
WEIRD: tuple[object, ...] = (
    None,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    ["a"],
    [1],
    {},
    {"a": 1},
    True,
    "x" * 1000,
    "docker://x",
)
LOCK = """\
[base]
asked BASE_IMAGE = auto
pinned BASE_IMAGE = x@sha256:0

[nsys]
asked NSYS_SOURCE = auto
pinned NSYS_SHA256 = abc
"""
RECORD = RunRecord(
    id="train-20261121-040000",
    launcher="docker",
    command=("python", "train.py"),
    nsys=("profile",),
    handle="docker://0123456789ab",
    phase="done",
    started_at="2026-11-21T04:00:00+00:00",
    seconds={"run": 12.5},
    ranks=(0,),
    kinds=("cuda",),
    exit_code=0,
    baseline={"ratio": 1.02, "wall_s": 12.5, "profiled_wall_s": 12.75},
    reports=(
        ReportSummary(file="rank0.a.nsys-rep", rank=0, host="a", bytes=9, events={"cuda": 3}),
    ),
)


def damage(data: bytes, choose: random.Random, most: int) -> bytes:
    """The bytes with some of them changed, left out or repeated."""
    damaged = bytearray(data)
    for _ in range(choose.randint(1, most)):
        place = choose.randrange(len(damaged)) if damaged else 0
        kind = choose.random()
        if kind < 0.5 and damaged:
            damaged[place] = choose.randrange(256)
        elif kind < 0.75:
            del damaged[place : place + choose.randrange(1, 8)]
        else:
            damaged[place:place] = bytes(choose.randrange(32, 127) for _ in range(3))
    return bytes(damaged)


def make_env(choose: random.Random) -> bytes:
    if choose.random() < 0.4:
        return damage(render_template().encode(), choose, choose.choice((1, 20)))
    if choose.random() < 0.1:
        return choose.randbytes(choose.randrange(200))
    names = [key.name for key in KEYS]
    lines = [
        choose.choice(("{}={}", "{} = {}", "export {}={}", "{}", "{1}")).format(
            choose.choice(names), choose.choice(VALUES)
        )
        for _ in range(choose.choice((1, 1, 2, 4)))
    ]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def make_record(choose: random.Random) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save_run(RECORD, Path(folder))
        record = json.loads((Path(folder) / RUN_FILE).read_bytes())
    for _ in range(choose.choice((1, 1, 2))):
        key = choose.choice([*record, "new"])
        if choose.random() < 0.2:
            record.pop(key, None)
        else:
            record[key] = choose_value(record.get(key), choose)
    data = json.dumps(record).encode()
    return damage(data, choose, 4) if choose.random() < 0.3 else data


def choose_value(value: object, choose: random.Random) -> object:
    """A value of the same type, or of any."""
    if isinstance(value, str) and choose.random() < 0.8:
        return choose.choice([text for text in VALUES if len(text) < 1000])
    if isinstance(value, int) and choose.random() < 0.8:
        return choose.choice((-1, 0, 255, 10**30))
    return choose.choice(WEIRD)


def read_env(path: Path) -> None:
    settings = load_settings(path, {}, ())
    for row in LAUNCHERS.values():
        with contextlib.suppress(GpuProfileError):
            row.load_class().from_settings(settings)
    text = path.read_bytes().decode()
    assert load_settings_of(update_text(text, {}).text, path) == settings


def load_settings_of(text: str, path: Path) -> Settings:
    path.write_bytes(text.encode())
    return load_settings(path, {}, ())


def read_lock_file(path: Path) -> None:
    lock = read_lock(path)
    with contextlib.suppress(GpuProfileError):  # it is of other settings
        apply_lock(load_settings(None, {}, ()), lock)


def read_record(path: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        environ = {"REPORT_DIR": str(path.parents[1])}
        reports(ReportsOptions(format="json", environ=environ))
    describe_end(path.parent, load_run(path.parent))


Case = tuple[str, Callable[[random.Random], bytes], Callable[[Path], None]]
CASES: tuple[Case, ...] = (
    (".env", make_env, read_env),
    ("gpu-profile.lock", lambda choose: damage(LOCK.encode(), choose, 4), read_lock_file),
    (RUN_FILE, make_record, read_record),
)


def run(seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """(how many were read and refused, the defects), for `count` files of each kind."""
    tally, defects = Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        directory.mkdir(mode=0o700)
        for name, make, read in CASES:
            for number in range(count):
                data = make(random.Random(f"{seed}.{name}.{number}"))
                (directory / name).write_bytes(data)
                outcome = try_reading(read, directory / name)
                tally[f"{name} {outcome if outcome in OUTCOMES else 'defect'}"] += 1
                if outcome not in OUTCOMES:
                    defects.append(f"{name}, seed {seed}, {number}: {outcome}: {data[:200]!r}")
            (directory / name).unlink()
    return tally, defects


OUTCOMES = ("read", "refused")


def try_reading(read: Callable[[Path], None], path: Path) -> str:
    """ "read", "refused", or what is wrong: a bad line, or an exception that is no refusal."""
    try:
        read(path)
    except GpuProfileError as error:
        return "refused" if str(error).strip() and "\n" not in str(error) else f"line {error!s:.80}"
    except Exception as error:
        return f"{error!r:.80} in {traceback.extract_tb(error.__traceback__)[-1].name}"
    return "read"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    tally, defects = run(options.seed, options.count)
    print("\n".join(defects))
    print(f"seed {options.seed}: {dict(sorted(tally.items()))}")
    sys.exit(bool(defects))


if __name__ == "__main__":
    main()
