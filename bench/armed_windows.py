"""How soon `record` begins, and how far apart the ranks are.

    .venv/bin/python bench/armed_windows.py [--count 20] [--nsys PATH]

Two ranks of this machine are armed and recorded. It prints the seconds from the command to the
first event of each window, and between the ranks' first events.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRAINING = ROOT / "tests" / "live" / "nsys" / "training.py"
TORCH = ROOT / "tests" / "data" / "annotated" / "doubles" / "torch_double.py"


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
        start = time.time()
        invoke(environ, "record", "--job=armed", "--seconds=0.5")
        reports = sorted(folder.glob(f"armed-*/rank*.{number}.nsys-rep"))
        firsts = [find_first_event(report, options.nsys) for report in reports]
        delays.append(max(firsts) - start)
        gaps.append(max(firsts) - min(firsts))
        print(f"window {number}: {delays[-1]:.2f} s, {gaps[-1] * 1e3:.0f} ms", file=sys.stderr)
    for name, values in (("command to first event", delays), ("between the ranks", gaps)):
        print(f"{name}: {statistics.median(values):.3f} s, at most {max(values):.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--nsys", default=shutil.which("nsys") or "nsys")
    measure_windows(parser.parse_args())


if __name__ == "__main__":
    main()
