"""What happens to an ssh run when its connections, its processes or its disk go away."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.live.hosts import BEAT, Invoked, await_true, error_line
from tests.live.ssh.conftest import Server

pytestmark = [pytest.mark.nsys, pytest.mark.sshd]
ON = ("--on", "ssh", "--gpus", "0")
SHORT = ("--", "python3", "-c", BEAT)
LONG = ("--", "python3", "-c", BEAT + "time.sleep(600)")


def job_log(remote: Path) -> str:
    return "".join(path.read_text() for path in remote.glob("*/job.log"))


def family_of_job(remote: Path) -> list[int]:
    """The processes of a job: job.py, profile.py, nsys and the program."""
    listed = subprocess.run(["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.decode(errors="replace").splitlines()]
    family = [pid for pid, _, *words in rows if f"supervise {remote}" in "".join(words)]
    for parent in family:
        family += [pid for pid, above, *_ in rows if above == parent]
    assert family
    return list(map(int, family))


def test_two_fetches_at_once(invoked: Invoked, remote: Path) -> None:
    handle = invoked.detached(*ON, *SHORT)
    await_true(lambda: "Generated" in job_log(remote))
    children = [invoked.start("fetch", "--job", handle) for _ in range(2)]
    for child in children:
        _, said = child.communicate(timeout=150)
        assert child.returncode == 0, said
    assert len(list(invoked.runs.glob("*/rank0.*.nsys-rep"))) == 1
    assert not list(remote.iterdir())


def test_a_killed_session_of_sshd_loses_nothing(
    invoked: Invoked, sshd: Server, remote: Path
) -> None:
    child = invoked.start("profile", *ON, "--", "python3", "-c", BEAT + "time.sleep(5)")
    await_true(lambda: "up" in job_log(remote))
    daemon = (sshd.directory / "sshd.pid").read_text().strip()
    listed = subprocess.run(["pgrep", "-P", daemon], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _, said = child.communicate(timeout=150)
    assert child.returncode == 0, said
    assert invoked.record()["reports"]


def test_a_host_that_was_restarted_is_named(invoked: Invoked, remote: Path) -> None:
    """All processes of the job are killed at once, as by a reboot."""
    handle = invoked.detached(*ON, *LONG)
    await_true(lambda: "up" in job_log(remote))
    for pid in family_of_job(remote):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert "its supervisor is gone" in invoked.run("status", "--job", handle).stdout
    done = invoked.run("fetch", "--job", handle)
    assert done.returncode == 5, done.stderr
    assert "its supervisor is gone: the machine restarted" in error_line(done)
    assert "up" in (invoked.latest() / "output.log").read_text()


def test_a_disk_that_is_full_before_the_job(invoked: Invoked, small_disk: Path) -> None:
    """It has no room for job.py and its modules."""
    (small_disk / "taken").write_bytes(bytes((3 << 20) - (64 << 10)))
    invoked = Invoked(invoked.runs, {**invoked.environ, "SSH_DIR": str(small_disk / "runs")})
    done = invoked.run("profile", *ON, *SHORT)
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in error_line(done)


def test_a_disk_that_is_full_before_the_fetch(invoked: Invoked, small_disk: Path) -> None:
    place = small_disk / "runs"
    invoked = Invoked(invoked.runs, {**invoked.environ, "SSH_DIR": str(place)})
    handle = invoked.detached(*ON, *SHORT)
    await_true(lambda: "succeeded" in invoked.run("status", "--job", handle).stdout)
    with contextlib.suppress(OSError), (small_disk / "taken").open("wb", 0) as file:
        while file.write(bytes(4096)):
            pass
    done = invoked.run("fetch", "--job", handle)
    assert done.returncode == 0, done.stderr
    assert list(invoked.latest().glob("rank0.*.nsys-rep"))
    assert not list(place.iterdir())
