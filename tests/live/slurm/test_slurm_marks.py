"""profile --annotate and --steps on Slurm, on both nodes."""

from pathlib import Path

import pytest

from tests.live.annotate.marked import assert_marked, make_source
from tests.live.hosts import Invoked

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]


def test_a_window_of_steps_is_in_each_report(invoked: Invoked, tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    where = ("--on", "slurm", "--gpus-per-node", "0", "--nodes", "2", "--processes", "1")
    marks = ("--annotate", "modules", "--steps", "2:4", "--env", f"PYTHONPATH={source}")
    done = invoked.run("profile", *where, *marks, "--", "python3", str(source / "training.py"))
    assert done.returncode == 0, done.stderr
    assert_marked(invoked.latest(), steps=2, ranks=2)
    for facts in invoked.record()["reports"]:
        assert facts["recorded_steps"] == [2, 4]
        assert len(facts["step_ms"]) == 6
