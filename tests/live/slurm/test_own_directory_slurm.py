"""profile --on slurm from a user's own directory, with its virtual environment."""

from pathlib import Path

import pytest

from tests.live.hosts import Installed, Invoked, make_own_directory, read_place

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]


def test_the_job_works_in_this_directory(invoked: Invoked, tmp_path: Path) -> None:
    work = tmp_path / "my code"
    make_own_directory(work, "venv")
    installed = Installed(invoked, work)
    words = ("--on=slurm", "--gpus-per-node=0", "--processes=1", "--", "python", "app.py")
    done = installed.run("profile", *words)
    assert done.returncode == 0, done.stderr
    assert read_place(installed) == [str(work), str(work / "venv")]
    assert (installed.latest() / "page.html").exists()
