"""profile --on ssh against a real sshd: the whole way, and what is left when parts of it fail."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import HOSTILE_NAMES
from tests.live.hosts import BEAT, Invoked, assert_costed, await_true, error_line
from tests.live.planted import PLANTED, PROGRAM, assert_hidden, found_in_arguments
from tests.live.ssh.conftest import Server
from tests.live.ssh.proxy import Proxy

pytestmark = [pytest.mark.nsys, pytest.mark.sshd]
ON = ("--on", "ssh", "--gpus", "0")


def job_log(remote: Path) -> str:
    return "".join(path.read_text() for path in remote.glob("*/job.log"))


def test_a_run_comes_home_and_leaves_nothing(invoked: Invoked, remote: Path) -> None:
    done = invoked.run(*("profile", *ON, "--ddp", "--processes", "2", "--", "python3", "-c"), BEAT)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in invoked.record()["reports"]] == [0, 1]
    assert not list(remote.iterdir())


@pytest.fixture
def hostile_source(tmp_path: Path) -> Path:
    """Scripts of hostile names; the first runs the others and prints its own words."""
    source = tmp_path / "source"
    source.mkdir()
    for name in HOSTILE_NAMES:
        (source / name).write_text(f"print({name!r})")
    (source / "all.py").write_text(
        "import runpy, sys\nprint(sys.argv[1:])\nfor name in sys.argv[1:-2]: runpy.run_path(name)"
    )
    return source


def assert_all_ran(invoked: Invoked) -> None:
    output = (invoked.latest() / "output.log").read_text()
    assert repr([*HOSTILE_NAMES, "a  b", ""]) in output
    assert all(f"{name}\n" in output for name in HOSTILE_NAMES)
    assert not list(Path().glob("pwned")) + list(Path.home().glob("pwned"))


WORDS = ("--", "python3", "all.py", *HOSTILE_NAMES, "a  b", "")


def test_hostile_names_by_rsync(invoked: Invoked, hostile_source: Path) -> None:
    done = invoked.run("profile", *ON, "--sync", str(hostile_source), *WORDS)
    assert done.returncode == 0, done.stderr
    assert_all_ran(invoked)


@pytest.fixture
def without_rsync(invoked: Invoked, tmp_path: Path) -> Invoked:
    """`rsync` fails as it does where the other side has none."""
    fake = tmp_path / "bin" / "rsync"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bash: rsync: command not found' >&2; exit 127\n")
    fake.chmod(0o755)
    environ = {**invoked.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    return Invoked(invoked.runs, environ)


def test_hostile_names_by_tar(without_rsync: Invoked, hostile_source: Path) -> None:
    invoked = without_rsync
    done = invoked.run("profile", *ON, "--sync", str(hostile_source), *WORDS)
    assert done.returncode == 0, done.stderr
    assert_all_ran(invoked)


def test_a_lost_connection_loses_nothing(invoked: Invoked, network: Proxy, remote: Path) -> None:
    child = invoked.start("profile", *ON, "--", "python3", "-c", BEAT + "time.sleep(4)")
    await_true(lambda: "up" in job_log(remote))
    network.cut()
    await_true(lambda: "Generated" in job_log(remote))
    network.mend()
    _, said = child.communicate(timeout=120)
    assert child.returncode == 0, said
    assert invoked.record()["reports"]


@pytest.mark.parametrize("how", ["invoked", "without_rsync"])
def test_a_fetch_that_is_cut_goes_on_later(
    how: str, request: pytest.FixtureRequest, network: Proxy, remote: Path
) -> None:
    invoked: Invoked = request.getfixturevalue(how)
    handle = invoked.detached(*ON, "--", "python3", "-c", BEAT)
    await_true(lambda: "Generated" in job_log(remote))
    network.budget = 150_000
    done = invoked.run("fetch", "--job", handle)
    assert done.returncode == 6, done.stderr
    line = error_line(done)
    assert str(remote) in line
    assert "invoke fetch --job ssh://gpu-host:" in line
    assert not list(invoked.latest().glob("*.nsys-rep"))
    network.mend()
    assert invoked.run("fetch", "--job", handle).returncode == 0
    assert list(invoked.latest().glob("*.nsys-rep"))


def test_another_shell_finds_the_job_by_its_handle(invoked: Invoked, remote: Path) -> None:
    handle = invoked.detached(*ON, "--", "python3", "-c", BEAT + "time.sleep(600)")
    elsewhere = Invoked(invoked.runs.parent, invoked.environ)
    assert "running" in elsewhere.run("status", "--job", handle).stdout
    await_true(lambda: "up" in job_log(remote))
    assert "up" in elsewhere.run("logs", "--job", handle).stdout
    for _ in range(2):
        assert elsewhere.run("stop", "--job", handle).returncode == 0
    assert "cancelled" in elsewhere.run("status", "--job", handle).stdout
    elsewhere.run("fetch", "--job", handle)
    assert list(elsewhere.latest().glob("*.nsys-rep"))


def test_what_the_profile_cost(invoked: Invoked) -> None:
    assert_costed(invoked, *ON)


def test_a_full_disk_there_is_named(invoked: Invoked, small_disk: Path) -> None:
    fill = f"open({str(small_disk / 'fill')!r}, 'wb').write(bytes(10**7))"
    invoked = Invoked(invoked.runs, {**invoked.environ, "SSH_DIR": str(small_disk / "runs")})
    done = invoked.run("profile", *ON, "--", "python3", "-c", BEAT + fill)
    assert done.returncode == 5, done.stderr
    assert "disk of" in error_line(done)


def test_no_nsys_there(invoked: Invoked) -> None:
    environ = {**invoked.environ, "NSYS": "/nowhere/nsys"}
    done = Invoked(invoked.runs, environ).run("profile", *ON, "--", "true")
    assert done.returncode == 3
    assert "no nsys on this machine: /nowhere/nsys" in error_line(done)


def test_a_changed_host_key_is_refused(
    invoked: Invoked, sshd: Server, network: Proxy, tmp_path: Path
) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True
    )
    known = tmp_path / "known"
    words = (tmp_path / "other.pub").read_text().split()[:2]
    known.write_text(f"gpu-host {' '.join(words)}\n")
    config = sshd.config_through(network.port, known)
    environ = {**invoked.environ, "SSH_ARGS": f"-F {config}"}
    done = Invoked(invoked.runs, environ).run("profile", *ON, "--", "true")
    assert done.returncode == 3
    assert "the host key of gpu-host is not the one that is known" in error_line(done)


def test_two_runs_at_once_on_one_host(invoked: Invoked) -> None:
    children = [invoked.start("profile", *ON, "--", "python3", "-c", BEAT) for _ in range(2)]
    for child in children:
        _, said = child.communicate(timeout=150)
        assert child.returncode == 0, said
    assert len(list(invoked.runs.glob("*/rank0.*.nsys-rep"))) == 2


def test_secrets_reach_the_program_and_nothing_else(invoked: Invoked, remote: Path) -> None:
    invoked.environ = {**invoked.environ, **PLANTED}
    extra = tuple(f"--env={name}" for name in PLANTED)
    words = ("profile", "--on", "ssh", "--gpus", "0", *extra, "--", "python3", "-c", PROGRAM, "5")
    child = invoked.start(*words)
    await_true(lambda: "got all" in job_log(remote))
    assert "planted" not in job_log(remote)
    assert found_in_arguments() == []
    _, said = child.communicate(timeout=180)
    assert child.returncode == 0, said
    assert_hidden(invoked.latest())
