"""`invoke record` on Slurm: a window of both nodes of a job that goes on."""

import re
import shutil
from pathlib import Path

import pytest

from tests.live.annotate.marked import make_source
from tests.live.hosts import Invoked

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
TRAINING = Path(__file__).parents[1] / "nsys" / "training.py"


def test_a_window_of_both_nodes(invoked: Invoked, tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    shutil.copy(TRAINING, source / "training.py")
    where = ("--on", "slurm", "--gpus-per-node", "0", "--nodes", "2", "--processes", "1")
    more = ("--record", "manual", "--name", "armed", "--detach", "--env", f"PYTHONPATH={source}")
    program = ("python3", str(source / "training.py"), "100000", "0.02", "7")
    started = invoked.run("profile", *where, *more, "--", *program)
    assert started.returncode == 0, started.stderr
    try:
        while invoked.run("logs", "--job", "armed").stdout.count("step") < 4:
            pass
        done = invoked.run("record", "--job", "armed", "--seconds", "0.5")
        assert done.returncode == 0, done.stderr
        assert re.findall(r"rank(\d)\.\S+\.1\.nsys-rep: ", done.stdout) == ["0", "1"]
        assert invoked.run("status", "--job", "armed").stdout == "running\n"
    finally:
        # The job has both nodes for half an hour, and the next test waits for them.
        stopped = invoked.run("stop", "--job", "armed")
    assert stopped.returncode == 0
