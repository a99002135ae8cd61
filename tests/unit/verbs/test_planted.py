"""No verb follows what a job left in its run directory, or opens a file there that could be one."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT
from tests.invoked import invoke
from tests.nsys_script import write_nsys
from tests.unit.verbs.small_report import make_small_report

NAMES = (
    *("output.log", ".run.json", ".run.json.part", "page.html", ".page.html.part"),
    *("timeline.perfetto-trace.gz", ".timeline.perfetto-trace.gz.part", ".sent.tar"),
    *("rank0.{host}.sqlite", "rank0.{host}.sqlite.part", ".fetched.tar", ".fetch", "job.stop"),
    *("all_reduce.nccl.json", "reports.csv"),
)
"""What verbs write, and what older versions wrote, in a run directory."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with nsys, REPORT_DIR `runs`, and `victim/` that nothing may change."""
    (tmp_path / "report.sqlite").write_bytes(make_small_report())
    write_nsys(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "authorized_keys").write_text("own")
    return tmp_path


def make_env(place: Path) -> dict[str, str]:
    return {"REPORT_DIR": str(place / "runs"), "NSYS": str(place / "nsys")}


def run_verb(place: Path, *words: str) -> str:
    done = invoke(*words, directory=place, **make_env(place))
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


PROFILE = ("profile", "--on=host", "--gpus=0", "--trace=nvtx", "--name=train", "--")


def plant(run: Path, victim: Path) -> None:
    """A link for each name to a file of its own that is not there, or to the one that is."""
    host = next(path.name.split(".")[1] for path in run.glob("rank0.*"))
    for number, name in enumerate(NAMES):
        path = run / name.format(host=host)
        if path.is_file():
            path.unlink()
        path.symlink_to(victim / (f"written-{number}" if number % 2 else "authorized_keys"))


def assert_untouched(place: Path) -> None:
    (key,) = (place / "victim").iterdir()
    assert key.read_text() == "own"


@pytest.mark.further
def test_links_for_every_name_change_nothing_elsewhere(place: Path) -> None:
    run_verb(place, *PROFILE, "true")
    (run,) = (place / "runs").iterdir()
    for verb in ("html", "timeline", "stats", "fetch --job=train", "status --job=train", "reports",
                 "logs --job=train", "stop --job=train", "diagnose"):  # fmt: skip
        for path in run.iterdir():
            if path.is_symlink():
                path.unlink()
        plant(run, place / "victim")
        run_verb(place, *verb.split())
        assert_untouched(place)
    assert (run / "run.json").is_file()


def test_links_that_the_job_makes_change_nothing_elsewhere(place: Path) -> None:
    names = [name for name in NAMES if "{" not in name and name != "job.stop"]
    script = (
        "import os, sys, time\nprint('begun', flush=True)\n"
        "runs = [each for each in os.scandir(sys.argv[1]) if each.is_dir()]\n"
        "run = max(runs, key=lambda each: each.stat().st_ctime).path\n"
        f"for name in {names!r} + ['run.json']:\n"
        "    path = os.path.join(run, name)\n"
        "    os.path.lexists(path) and os.unlink(path)\n"
        "    os.symlink(sys.argv[2] + '/' + name.replace('output.log', 'authorized_keys'), path)\n"
        "print('its own words', flush=True)\n"
    )
    said = run_verb(
        place, *PROFILE, sys.executable, "-c", script, f"{place}/runs", f"{place}/victim"
    )
    assert_untouched(place)
    (run,) = (path for path in (place / "runs").iterdir() if path.is_dir())
    assert "its own words" in (run / "output.log").read_text(), said
    assert not (run / "output.log").is_symlink()
    assert not (run / "run.json").is_symlink()


OPEN = re.compile(r'\bopen(?:at2?)?\((?:\w+, )?"(?P<path>[^"]+)", (?P<flags>[A-Z_|]+)')
WRITING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}
SAFE = {"O_EXCL", "O_NOFOLLOW", "O_TMPFILE", "O_DIRECTORY"}


def unsafe_opens(trace: Path, below: Path) -> set[str]:
    calls = OPEN.finditer(trace.read_text(errors="replace"))
    opened = ((match["path"], set(match["flags"].split("|"))) for match in calls)
    return {
        f"{path} {sorted(flags)}"
        for path, flags in opened
        if path.startswith(f"{below}/") and flags & WRITING and not flags & SAFE
    }


RUN_VERBS = """
import json, os, sys
from tests.fork_server import Call, become_call, import_verbs
import_verbs()
for call in json.loads(sys.argv[1]):
    if not os.fork():
        become_call(Call(**call))
    os.wait()
"""
"""Runs each call in a child. A trace of one Python per verb has a thousand opens of its imports."""


@pytest.fixture
def strace(tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    """The file for a trace of every open, and the words before a command that make it."""
    trace = tmp_path / "trace"
    calls = ("-e", "trace=open,openat,openat2,creat")
    words = ("strace", "-f", "--seccomp-bpf", "-qq", "-s", "4096", *calls, "-o", str(trace))
    if not shutil.which("strace") or subprocess.run([*words, "true"]).returncode:
        pytest.skip("strace cannot trace here")
    return trace, words


@pytest.mark.further
def test_no_file_of_a_run_is_opened_for_writing_where_a_link_could_lie(
    place: Path, strace: tuple[Path, tuple[str, ...]]
) -> None:
    trace, before = strace
    verbs = (
        (*PROFILE, "true"),
        *(("html",), ("timeline",), ("stats",), ("reports",), ("fetch", "--job=train")),
        *(("scrub", f"--output={place}/runs/copies"), ("logs", "--job=train")),
        ("compare", "--base=train", "--new=report.sqlite", f"--output={place}/runs/compare.txt"),
    )
    module = ("-m", "invoke", "--search-root", str(ROOT))
    common = {"directory": str(place), "environ": {**os.environ, **make_env(place)}, "umask": 0o22}
    calls = json.dumps([{"words": (*module, *words), **common} for words in verbs])
    argv = (*before, sys.executable, "-c", RUN_VERBS, calls)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=900)
    assert "Traceback" not in done.stderr, done.stderr
    assert (place / "runs" / "compare.txt").exists()
    assert list((place / "runs" / "copies").iterdir())
    assert trace.read_text(errors="replace").count("compare.txt") > 0
    assert "output.log" in trace.read_text(errors="replace")
    assert unsafe_opens(trace, place / "runs") == set()
