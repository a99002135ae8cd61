"""`invoke record` over ssh: a window of a job on the other side, which goes on."""

import shutil
from pathlib import Path

import pytest

from tests.live.annotate.marked import make_source
from tests.live.hosts import Invoked
from tests.live.torch_site import check_end, record_twice, write_site

pytestmark = [pytest.mark.nsys, pytest.mark.sshd]
TRAINING = Path(__file__).parents[1] / "nsys" / "training.py"


def test_a_window_of_a_job_over_ssh(invoked: Invoked, tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    shutil.copy(TRAINING, source / "training.py")
    where = ("--on", "ssh", "--gpus", "0", "--sync", str(source), "--name", "armed", "--detach")
    program = ("python3", "training.py", "100000", "0.02", "7")
    started = invoked.run("profile", *where, "--record", "manual", "--", *program)
    assert started.returncode == 0, started.stderr
    while "step" not in invoked.run("logs", "--job", "armed").stdout:
        pass
    done = invoked.run("record", "--job", "armed", "--seconds", "0.5")
    assert done.returncode == 0, done.stderr
    assert ".1.nsys-rep: " in done.stdout
    assert [path.suffixes[-2] for path in invoked.latest().glob("*.nsys-rep")] == [".1"]
    assert invoked.run("status", "--job", "armed").stdout == "running\n"
    assert invoked.run("stop", "--job", "armed").returncode == 0


def test_windows_by_torch_profiler_over_ssh(invoked: Invoked, tmp_path: Path) -> None:
    write_site(tmp_path)
    site = f"--env=PYTHONPATH={tmp_path / 'site'}"
    where = ("--on=ssh", "--gpus=0", "--with=torch", "--record=manual", site)
    program = ("python3", str(tmp_path / "train.py"), "1000000", str(tmp_path / "enough"))
    handle = invoked.detached(*where, "--", *program)
    record_twice(invoked.run, handle)
    (tmp_path / "enough").touch()
    check_end(invoked.run, handle)
