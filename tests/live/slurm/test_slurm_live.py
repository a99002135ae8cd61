"""profile --on slurm on a real two-node Slurm: the whole way, and each way it can end."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import HOSTILE_NAMES
from tests.live.hosts import BEAT, Invoked, await_true, error_line
from tests.live.planted import PLANTED, PROGRAM, assert_hidden

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
ON = ("--on", "slurm", "--gpus-per-node", "0")
Slurm = Callable[..., str]


def output(invoked: Invoked) -> str:
    logs = Path(invoked.environ["SLURM_DIR"]).glob(".gpu-profile-slurm-*/*/output.log")
    return "".join(path.read_text() for path in logs if not path.parent.is_symlink())


def running(invoked: Invoked, *words: str) -> "subprocess.Popen[str]":
    """A job of two tasks on two nodes that runs until something ends it."""
    endless = ("--", "python3", "-c", BEAT + "time.sleep(600)")
    child = invoked.start("profile", *ON, "--nodes", "2", "--processes", "1", *words, *endless)
    await_true(lambda: "up 0" in output(invoked) and "up 1" in output(invoked), 240)
    return child


def ended(child: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    out, err = child.communicate(timeout=240)
    return subprocess.CompletedProcess("profile", child.returncode, out, err)


def job_number(slurm: Slurm) -> str:
    return slurm("squeue", "--noheader", "--format=%i").strip()


def test_four_tasks_on_two_nodes(invoked: Invoked) -> None:
    shows = BEAT + "print(*(os.environ[n] for n in ('WORLD_SIZE', 'MASTER_ADDR')), sys.argv[1:])"
    words = ("--", "python3", "-c", shows, *HOSTILE_NAMES, "a  b", "")
    done = invoked.run("profile", *ON, "--nodes", "2", "--processes", "2", *words)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in invoked.record()["reports"]] == [0, 1, 2, 3]
    text = (invoked.latest() / "output.log").read_text()
    assert text.count(f"4 n1 {[*HOSTILE_NAMES, 'a  b', '']}") == 4
    assert not list(Path(invoked.environ["SLURM_DIR"]).glob(".gpu-profile-slurm-*/*"))
    assert not list(Path().glob("pwned"))


def test_only_chosen_ranks_are_recorded(invoked: Invoked) -> None:
    words = ("--ranks", "1", "--env", "WORD=it's; $HOME", "--", "python3", "-c")
    done = invoked.run(
        *("profile", *ON, "--processes", "2", *words, BEAT + "print(os.environ['WORD'])")
    )
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in invoked.record()["reports"]] == [1]
    assert "it's; $HOME" in (invoked.latest() / "output.log").read_text()


def test_stop_finalises_every_rank(invoked: Invoked) -> None:
    child = running(invoked)
    handle = invoked.record()["handle"]
    assert "running" in invoked.run("status", "--job", handle).stdout
    assert "up 0" in invoked.run("logs", "--job", handle).stdout
    assert invoked.run("stop", "--job", handle).returncode == 0
    done = ended(child)
    assert done.returncode == 130
    assert "stopped by you" in error_line(done)
    assert len(list(invoked.latest().glob("*.nsys-rep"))) == 2


def test_a_dying_rank_ends_the_others_and_all_reports_are_kept(invoked: Invoked) -> None:
    dies = BEAT + "time.sleep(2)\nsys.exit(7) if os.environ['RANK'] == '1' else time.sleep(600)"
    done = invoked.run("profile", *ON, "--processes", "2", "--", "python3", "-c", dies)
    assert done.returncode == 5
    assert "with exit code 7: task 1 failed first" in error_line(done)
    assert len(list(invoked.latest().glob("*.nsys-rep"))) == 2


def test_a_job_that_somebody_cancels(invoked: Invoked, slurm: Slurm) -> None:
    child = running(invoked)
    slurm("scancel", job_number(slurm))
    done = ended(child)
    assert done.returncode == 5
    assert "cancelled" in error_line(done)
    assert len(list(invoked.latest().glob("*.nsys-rep"))) == 2


@pytest.mark.slow
def test_a_job_over_its_time_limit(invoked: Invoked) -> None:
    done = ended(running(invoked, "--time", "1"))
    assert done.returncode == 5
    assert "over its time limit of 00:01:00" in error_line(done)
    # An nsys of 2023 does not import a minute on a machine whose process ids wrap around.
    files = list(invoked.latest().glob("*.nsys-rep")) + list(invoked.latest().glob("*.qdstrm"))
    assert len(files) == 2


def test_the_warning_before_the_time_limit(invoked: Invoked, slurm: Slurm) -> None:
    """Slurm sends USR1 to the script as early as asked; here we send it."""
    child = running(invoked)
    slurm("scancel", "--batch", "--signal=USR1", job_number(slurm))
    done = ended(child)
    assert done.returncode == 5
    assert "time limit was near" in error_line(done)
    assert len(list(invoked.latest().glob("*.nsys-rep"))) == 2


def test_a_node_that_fails(invoked: Invoked, slurm: Slurm) -> None:
    child = running(invoked)
    slurm("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    done = ended(child)
    # The node's daemon is well, and so the controller takes it back by itself, or is told to.
    subprocess.run(
        ["scontrol", "update", "nodename=n2", "state=resume"], env=invoked.environ, check=False
    )
    await_true(
        lambda: slurm("sinfo", "--noheader", "--Node", "--states=idle").count("\n") == 2, 240
    )
    assert done.returncode == 5
    assert "a node failed" in error_line(done)


def test_a_requeued_job_says_so_and_keeps_its_first_attempt(invoked: Invoked, slurm: Slurm) -> None:
    child = running(invoked, "--sbatch-args", "--requeue")
    number = job_number(slurm)
    slurm("scontrol", "requeue", number)
    handle = f"slurm://{number}"
    await_true(lambda: "requeued once" in invoked.run("status", "--job", handle).stdout)
    # Slurm holds a requeued job back for 120 s from when its nodes are cleaned: before that, it
    # forgets a time that it was told.
    await_true(lambda: slurm("squeue", "--noheader", "--format=%T").strip() == "PENDING", 240)
    slurm("scontrol", "update", f"jobid={number}", "StartTime=now")
    await_true(lambda: output(invoked).count("up 0") == 2, 240)
    invoked.run("stop", "--job", handle)
    done = ended(child)
    assert done.returncode == 130
    assert len(list(invoked.latest().glob("*.nsys-rep"))) == 2
    assert list(invoked.latest().glob("attempt-1/*"))


def test_a_queued_job_shows_the_queues_reason_and_leaves_it(invoked: Invoked) -> None:
    words = ("--sbatch-args", "--begin=now+1hour", "--", "true")
    handle = invoked.detached(*ON, *words)
    assert "BeginTime" in invoked.run("status", "--job", handle).stdout
    assert invoked.run("stop", "--job", handle).returncode == 0
    assert "cancelled" in invoked.run("status", "--job", handle).stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--partition", "nowhere"), 2, "Invalid partition"),
        (("--sbatch-args", "--no-such-option"), 2, "nrecognized option"),
    ],
)
def test_sbatch_refuses(invoked: Invoked, words: tuple[str, ...], code: int, said: str) -> None:
    done = invoked.run("profile", *ON, *words, "--", "true")
    assert done.returncode == code, done.stderr
    assert said in error_line(done)


def test_two_jobs_at_once(invoked: Invoked) -> None:
    words = ("profile", *ON, "--processes", "1", "--", "python3", "-c", BEAT)
    children = [invoked.start(*words) for _ in range(2)]
    assert [ended(child).returncode for child in children] == [0, 0]


def test_no_slurm_here(invoked: Invoked, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("python3", "sh", "tar", "mkdir", "cat", "rm", "touch", "chmod"):
        (bare / name).symlink_to(shutil.which(name) or name)
    done = Invoked(invoked.runs, {**invoked.environ, "PATH": str(bare)}).run(
        *("profile", *ON, "--", "true")
    )
    assert done.returncode == 3
    assert re.search("(sinfo|sbatch|srun) is not installed here", error_line(done))


def test_secrets_reach_the_program_and_nothing_else(invoked: Invoked) -> None:
    invoked.environ = {**invoked.environ, **PLANTED}
    extra = tuple(f"--env={name}" for name in PLANTED)
    done = invoked.run("profile", *ON, *extra, "--", "python3", "-c", PROGRAM, "1")
    assert done.returncode == 0, done.stderr
    assert_hidden(invoked.latest())
