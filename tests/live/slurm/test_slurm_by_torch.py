"""--with torch on a real Slurm whose nodes have no nsys: by flags, and a user's own script."""

import sys
from pathlib import Path

import pytest

from tests.live.hosts import Invoked
from tests.live.torch_site import check_end, record_twice, write_site

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
WORDS = ("--with=torch", "--annotate=modules", "--steps=4:8")
SCRIPT = f"""#!/bin/sh
#SBATCH -n 2 -N 2
#SBATCH --gres=none
srun {sys.executable} "$1" 20
"""


@pytest.fixture
def without_nsys(invoked: Invoked, tmp_path: Path) -> Invoked:
    site = str(write_site(tmp_path) / "site")
    return Invoked(
        invoked.runs, {**invoked.environ, "NSYS": str(tmp_path / "nowhere"), "PYTHONPATH": site}
    )


def check_reports(invoked: Invoked) -> None:
    assert [report["rank"] for report in invoked.record()["reports"]] == [0, 1]
    traces = sorted(path.name for path in invoked.latest().glob("*.pt.trace.json.gz"))
    assert [name.partition(".")[0] for name in traces] == ["rank0", "rank1"]
    assert not list(invoked.latest().glob("*.nsys-rep"))


def test_windows_of_two_tasks_on_two_nodes(without_nsys: Invoked, tmp_path: Path) -> None:
    where = ("--on=slurm", "--nodes=2", "--gpus-per-node=0", "--processes=1", "--ddp")
    program = (sys.executable, str(tmp_path / "train.py"), "1000000", str(tmp_path / "enough"))
    handle = without_nsys.detached(*where, "--with=torch", "--record=manual", "--", *program)
    record_twice(without_nsys.run, handle, ranks=2)
    (tmp_path / "enough").touch()
    check_end(without_nsys.run, handle, ranks=2)


def test_a_script_of_the_users(without_nsys: Invoked, tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(SCRIPT)
    manifest = f"--manifest={script}"
    done = without_nsys.run("profile", manifest, *WORDS, "--", str(tmp_path / "train.py"))
    assert done.returncode == 0, done.stderr
    assert "steps 4 to 7" in done.stdout
    check_reports(without_nsys)
