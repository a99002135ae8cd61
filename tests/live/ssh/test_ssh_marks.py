"""profile --annotate over ssh: the steps and modules of a program on the other side."""

from pathlib import Path

import pytest

from tests.live.annotate.marked import assert_marked, make_source
from tests.live.hosts import Invoked

pytestmark = [pytest.mark.nsys, pytest.mark.sshd]


def test_modules_are_in_the_report(invoked: Invoked, tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    where = ("--on", "ssh", "--gpus", "0", "--sync", str(source), "--annotate", "modules")
    done = invoked.run("profile", *where, "--", "python3", "training.py")
    assert done.returncode == 0, done.stderr
    assert_marked(invoked.latest(), steps=6)
