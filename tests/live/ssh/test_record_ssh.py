"""`invoke record` over ssh: a window of a job on the other side, which goes on."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT
from tests.live.annotate.marked import make_source
from tests.live.hosts import Invoked, await_true
from tests.live.torch_site import check_end, record_twice, write_site

pytestmark = [pytest.mark.nsys, pytest.mark.sshd]
TRAINING = Path(__file__).parents[1] / "nsys" / "training.py"


def start(invoked: Invoked, tmp_path: Path, *words: str) -> None:
    """Start an armed job, `armed`, and wait until it makes steps."""
    source = make_source(tmp_path / "source")
    shutil.copy(TRAINING, source / "training.py")
    where = ("--on", "ssh", "--gpus", "0", "--sync", str(source), "--name", "armed", "--detach")
    program = ("python3", "training.py", "100000", "0.02", "7", *words)
    started = invoked.run("profile", *where, "--record", "manual", "--", *program)
    assert started.returncode == 0, started.stderr
    while "step" not in invoked.run("logs", "--job", "armed").stdout:
        pass


def test_a_window_of_a_job_over_ssh(invoked: Invoked, tmp_path: Path) -> None:
    start(invoked, tmp_path)
    done = invoked.run("record", "--job", "armed", "--seconds", "0.5")
    assert done.returncode == 0, done.stderr
    assert ".1.nsys-rep: " in done.stdout
    assert [path.suffixes[-2] for path in invoked.latest().glob("*.nsys-rep")] == [".1"]
    assert invoked.run("status", "--job", "armed").stdout == "running\n"
    assert invoked.run("stop", "--job", "armed").returncode == 0


def test_record_is_killed_while_it_fetches(invoked: Invoked, tmp_path: Path) -> None:
    """rsync has begun with the report. The job goes on, and the next fetch brings it."""
    start(invoked, tmp_path, str(tmp_path / "enough"))
    slow = tmp_path / "slow"
    slow.mkdir()
    rsync = shutil.which("rsync")
    assert rsync
    (slow / "rsync").write_text(f'#!/bin/sh\nexec {rsync} --bwlimit=1 "$@"\n')
    (slow / "rsync").chmod(0o755)
    environ = {**invoked.environ, "PATH": f"{slow}:{os.environ['PATH']}"}
    argv = invoked.argv("record", "--job", "armed", "--seconds", "0.5")
    run = invoked.latest()
    with subprocess.Popen(argv, cwd=ROOT, env=environ, start_new_session=True) as record:
        await_true(lambda: list(run.rglob(".*.1.nsys-rep.*")))  # the name while rsync copies
        os.killpg(record.pid, signal.SIGKILL)
    assert not list(run.glob("*.nsys-rep"))
    assert invoked.run("status", "--job", "armed").stdout == "running\n"
    (tmp_path / "enough").touch()
    fetched = invoked.run("fetch", "--job", "armed", "--no-html")
    assert (fetched.returncode, "exit code 7" in fetched.stderr) == (5, True), fetched.stderr
    assert fetched.stdout.count(".1.nsys-rep: ") == 1


def test_windows_by_torch_profiler_over_ssh(invoked: Invoked, tmp_path: Path) -> None:
    write_site(tmp_path)
    site = f"--env=PYTHONPATH={tmp_path / 'site'}"
    where = ("--on=ssh", "--gpus=0", "--with=torch", "--record=manual", site)
    program = ("python3", str(tmp_path / "train.py"), "1000000", str(tmp_path / "enough"))
    handle = invoked.detached(*where, "--", *program)
    record_twice(invoked.run, handle)
    (tmp_path / "enough").touch()
    check_end(invoked.run, handle)
