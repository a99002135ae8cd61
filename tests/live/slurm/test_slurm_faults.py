"""Parts of Slurm that go away during a job, and two processes that fetch one."""

import signal
from pathlib import Path

import pytest

from tests.live.hosts import BEAT, Invoked, await_true, error_line
from tests.live.slurm.conftest import Killed, invoked_in
from tests.live.slurm.test_slurm_live import ON, ended, output, running

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]


@pytest.fixture
def frail(tmp_path: Path, nsys: str, killed: Killed) -> Invoked:
    return invoked_in(tmp_path, nsys, str(killed.conf))


def test_a_node_whose_daemon_was_killed_is_named_and_the_other_rank_kept(
    frail: Invoked, killed: Killed
) -> None:
    child = running(frail)
    killed.end("slurmd.n2")
    done = ended(child)
    killed.start("slurmd.n2")  # it ends the rank that went on there
    assert done.returncode == 5, done.stderr
    assert "a node failed" in error_line(done)
    assert "no report of rank 1 in" in error_line(done)
    # An nsys of 2023 does not import a recording of a machine whose process ids wrap around.
    recordings = [
        path.name for kind in ("nsys-rep", "qdstrm") for path in frail.latest().glob(f"*.{kind}")
    ]
    assert [name.partition(".")[0] for name in recordings] == ["rank0"]


def test_a_controller_that_starts_again_loses_no_job(frail: Invoked, killed: Killed) -> None:
    end = frail.runs / "end"
    program = BEAT + f"while not os.path.exists({str(end)!r}): time.sleep(0.1)"
    words = ("--nodes", "2", "--processes", "1", "--", "python3", "-c", program)
    child = frail.start("profile", *ON, *words)
    await_true(lambda: "up 0" in output(frail) and "up 1" in output(frail), 240)
    # As systemctl restarts it. After a SIGKILL it may not know that it has started the job, and
    # starts it again.
    killed.end("slurmctld", signal.SIGTERM)
    end.touch()
    killed.start("slurmctld")
    done = ended(child)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in frail.record()["reports"]] == [0, 1]


def test_two_fetches_at_once_bring_one_run(invoked: Invoked) -> None:
    program = BEAT + "time.sleep(1)"
    handle = invoked.detached(*ON, "--processes", "1", "--", "python3", "-c", program)
    both = [invoked.start("fetch", "--job", handle) for _ in range(2)]
    for done in map(ended, both):
        assert done.returncode == 0, done.stderr
    assert len(list(invoked.runs.glob("*/*.nsys-rep"))) == 1
    assert invoked.record()["phase"] == "done"
