"""Whose directory a Slurm job has, and which jobs are ours."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.settings.settings import Settings

JOB = Job(name="train-1", command=("true",))


def launcher(shared: Path, login: str = "") -> SlurmLauncher:
    values = {"SLURM_DIR": str(shared), "SLURM_LOGIN": login}
    return SlurmLauncher.from_settings(Settings(launcher_values=values, report_dir=shared))


def run(command: Command) -> "subprocess.CompletedProcess[str]":
    stdin = command.stdin_file.read_bytes() if command.stdin_file else b""
    done = subprocess.run(command.argv, input=stdin, capture_output=True)
    words = (done.stdout.decode(), done.stderr.decode())
    return subprocess.CompletedProcess(command.argv, done.returncode, *words)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A run as older versions kept it: one directory for all users, a link by the job's number."""
    run_directory = tmp_path / ".gpu-profile-slurm" / "train-1"
    run_directory.mkdir(parents=True, mode=0o700)
    (run_directory / "job.sbatch").touch()
    (run_directory / "output.log").write_text("its words\n")
    (tmp_path / ".gpu-profile-slurm" / "7").symlink_to("train-1")
    return run_directory


def test_each_user_has_a_directory(tmp_path: Path) -> None:
    own, there = launcher(tmp_path), launcher(tmp_path, "ana@login")
    assert own.directory.startswith(f"{tmp_path}/.gpu-profile-slurm-")
    assert there.directory == f"{tmp_path}/.gpu-profile-slurm-ana"


def sent(slurm: SlurmLauncher, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """What copying the agent to the shared directory comes to."""
    archive = tmp_path / "empty.tar"
    subprocess.run(["tar", "-cf", archive, "-T", "/dev/null"], check=True)
    pack, send, *_ = process.plan(slurm.submit(JOB, NsysPlan(options=())))
    assert pack.argv[:3] == ("tar", "-cf", "-")
    return run(Command(argv=send.argv, stdin_file=archive))


def test_the_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    slurm = launcher(tmp_path)
    assert sent(slurm, tmp_path).returncode == 0
    for path in (Path(slurm.directory), Path(slurm.directory, "train-1")):
        assert path.stat().st_mode & 0o777 == 0o700


def test_one_that_somebody_made_before_is_refused(tmp_path: Path) -> None:
    slurm = launcher(tmp_path)
    Path(slurm.directory).mkdir()
    Path(slurm.directory).chmod(0o777)
    done = sent(slurm, tmp_path)
    assert done.returncode == 2
    assert "is not a directory of this user alone" in done.stderr
    assert not list(Path(slurm.directory).iterdir())


def test_a_run_of_an_older_version_is_found(tmp_path: Path, older: Path) -> None:
    slurm = launcher(tmp_path)
    assert run(slurm.logs("7", follow=False)).stdout == "its words\n"
    result = run(next(slurm.fetch("7", tmp_path)))
    assert result.stdout == f"{older}\n"
    assert run(next(slurm.cleanup("7"))).returncode == 0
    assert not older.exists()
    assert not os.path.lexists(tmp_path / ".gpu-profile-slurm" / "7")


def test_another_users_run_is_refused(tmp_path: Path, older: Path) -> None:
    try:
        os.chown(older, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can make a directory of another user")
    slurm = launcher(tmp_path)
    commands = (slurm.logs("7", follow=False), *(next(v("7")) for v in (slurm.stop, slurm.cleanup)))
    for command in (*commands, next(slurm.fetch("7", tmp_path))):
        done = run(command)
        assert done.returncode == 2, done
        assert "is not a directory of this user alone" in done.stderr
    assert older.exists()


@pytest.mark.parametrize(
    ("comment", "code"), [(" Comment=gpu-profile ", 0), (" Comment=x ", 2), ("", 2)]
)
def test_only_a_job_with_our_comment_is_stopped(
    tmp_path: Path, fake_tool: Callable[..., object], comment: str, code: int
) -> None:
    fake_tool("scontrol", f"echo 'JobId=7 JobName=other{comment}Partition=main'")
    done = run(next(launcher(tmp_path).stop("7")))
    assert done.returncode == code
    assert ("slurm://7 was not submitted by gpu-profile" in done.stderr) == bool(code)


def test_a_job_whose_directory_is_ours_needs_no_comment(tmp_path: Path, older: Path) -> None:
    assert run(next(launcher(tmp_path).stop("7"))).returncode == 0
