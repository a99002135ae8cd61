"""host and ssh as values: the commands of each verb, what answers mean, what is refused."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath
from typing import TypeVar, cast

import pytest

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import GpuProfileError, JobError, ReportError, SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.job_status import JobState
from gpu_profile.launchers.agent.job_directory import CONTAINER_ROOT, Agent
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.ssh import SshLauncher
from gpu_profile.process import plan
from gpu_profile.remote_host import RemoteHost

T = TypeVar("T")
PLAN = NsysPlan(options=("--trace=cuda,nvtx",), first=("--gpu-metrics-devices=all",))
JOB = Job(
    name="train-1",
    command=("python", "train.py", "a b", "; echo x"),
    env={"HF_TOKEN": "hunter2xyz"},
    resources=Resources(gpus_per_node=2, tasks_per_node=2),
    ddp=True,
)
SSH = SshLauncher(address="ec2-user@gpu", report_dir=Path("/tmp"), agent=Agent(python="python3"))


def driven(steps: Steps[T], answers: Sequence[Result]) -> tuple[list[Command], T]:
    """The commands of `steps` with these answers, and the value."""
    commands, left = [], list(answers)
    try:
        command = next(steps)
        while True:
            commands.append(command)
            command = steps.send(left.pop(0))
    except StopIteration as stop:
        return commands, stop.value


def said(text: str, code: int = 255) -> Result:
    return Result(returncode=code, stderr=text)


def windows_host() -> HostLauncher:
    root = cast("Path", PureWindowsPath(r"C:\gpu profile\Container-Root\agent"))
    return HostLauncher(
        report_dir=cast("Path", PureWindowsPath(r"D:\runs")),
        agent=Agent(python=r"C:\Python311\python.exe", root=root),
    )


def test_windows_needs_no_posix_shell(golden: Callable[[str, str], None]) -> None:
    host = windows_host()
    job_id = r"D:\runs\train-1"
    to = cast("Path", PureWindowsPath(job_id))
    commands = [
        next(host.gpus()),
        *plan(host.probe(JOB)),
        *plan(host.submit(JOB, PLAN)),
        *plan(host.stop(job_id)),
        host.logs(job_id, follow=True),
        *plan(host.fetch(job_id, to)),
    ]
    lines = [json.dumps(command.argv) + "\n" + command.stdin for command in commands]
    golden("host-windows.txt", "\n".join(lines))
    assert {command.argv[0] for command in commands} == {r"C:\Python311\python.exe"}


def test_the_host_gets_variables_by_its_environment_only() -> None:
    (start,) = plan(HostLauncher(report_dir=Path("/tmp")).submit(JOB, PLAN))
    assert start.env == {"HF_TOKEN": "hunter2xyz"}
    assert "hunter2xyz" not in str(start) + start.stdin


def test_ssh_submits_in_readable_commands(golden: Callable[[str, str], None]) -> None:
    launcher = SshLauncher(
        **{**vars(SSH), "sync": Path("/home/me/my code"), "options": ("-p", "2222")}
    )
    lines = [f"{command}\n{command.stdin}" for command in plan(launcher.submit(JOB, PLAN))]
    root = str(CONTAINER_ROOT)
    golden("ssh-submit.txt", "\n".join(lines).replace(root, "Container-Root"))


@pytest.mark.parametrize(
    ("job_id", "host", "directory"),
    [
        ("gpu:.gpu-profile/r", "gpu", ".gpu-profile/r"),
        ("me@gpu:/data/a:b/r", "me@gpu", "/data/a:b/r"),
        ("me@[2001:db8::1]:runs/r", "me@[2001:db8::1]", "runs/r"),
        ("gpu:new\nline/r", "gpu", "new\nline/r"),
    ],
)
def test_a_handle_holds_the_host_and_the_directory(job_id: str, host: str, directory: str) -> None:
    argv = SSH.logs(job_id, follow=False).argv
    assert argv[-2] == host
    assert directory in argv[-1]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("ssh: connect to host gpu port 22: Connection timed out", JobState.UNKNOWN),
        ("kex_exchange_identification: Connection closed by remote host", JobState.UNKNOWN),
        ("client_loop: send disconnect: Broken pipe", JobState.UNKNOWN),
    ],
)
def test_a_network_that_is_away_is_no_end_of_the_job(words: str, state: JobState) -> None:
    _, status = driven(SSH.status("gpu:r"), [said(words)])
    assert status.state is state
    assert not status.state.is_finished


@pytest.mark.parametrize(
    ("words", "fault", "hint"),
    [
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
            "host key of gpu",
            "ssh-keygen -R",
        ),
        ("me@gpu: Permission denied (publickey).", "Permission denied", "Make `ssh gpu` work"),
        ("ssh: Could not resolve hostname gpu: unknown", "resolve", "--host gpu"),
        ("Host key verification failed.", "verification failed", "Connect once by `ssh gpu`"),
    ],
)
def test_what_will_not_pass_is_refused(words: str, fault: str, hint: str) -> None:
    with pytest.raises(ToolError) as refused:
        driven(SSH.status("gpu:r"), [said(words)])
    assert fault in str(refused.value)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "state", "reason"),
    [
        ({"state": "running"}, JobState.RUNNING, ""),
        ({"state": "failed", "exit_code": 7}, JobState.FAILED, ""),
        ({"state": "cancelled", "reason": "stopped"}, JobState.CANCELLED, "stopped"),
        ({"state": "lost", "reason": "gone"}, JobState.FAILED, "gone"),
        ({"state": "of a later version"}, JobState.UNKNOWN, ""),
    ],
)
def test_states(answer: dict[str, object], state: JobState, reason: str) -> None:
    _, status = driven(SSH.status("gpu:r"), [Result(returncode=0, stdout=json.dumps(answer))])
    assert (status.state, status.reason) == (state, reason)


def test_a_fetch_is_tried_twice_and_then_says_where_the_reports_lie(tmp_path: Path) -> None:
    listed = Result(returncode=0, stdout='["rank0.h.nsys-rep"]')
    cut, fine = said("rsync: connection unexpectedly closed", 12), Result(returncode=0)
    with pytest.raises(ReportError) as refused:
        driven(SSH.fetch("gpu:.gpu-profile/r", tmp_path), [listed, fine, cut, cut])
    assert "the reports lie in gpu:.gpu-profile/r" in str(refused.value)
    assert "invoke fetch --job ssh://gpu:.gpu-profile/r" in str(refused.value)
    commands, _ = driven(SSH.fetch("gpu:r", tmp_path), [listed, fine, cut, fine, fine])
    assert [command.argv[0] for command in commands] == [
        *("ssh", "python3", "rsync", "rsync", "python3")
    ]
    assert "adopt" in commands[-1].argv


def test_without_rsync_there_tar_fetches(tmp_path: Path) -> None:
    listed = Result(returncode=0, stdout='["rank0.h.nsys-rep"]')
    none, fine = said("bash: rsync: command not found", 127), Result(returncode=0)
    answers = [listed, fine, none, fine, fine, fine]
    commands, _ = driven(SSH.fetch("gpu:r", tmp_path), answers)
    assert [command.argv[0] for command in commands] == [
        *("ssh", "python3", "rsync", "python3", "ssh", "python3")
    ]


def test_a_host_brings_no_links_devices_or_modes(tmp_path: Path) -> None:
    names = '["rank0.h.nsys-rep", "../x.nsys-rep", "/etc/x.nsys-rep", "-e.nsys-rep", 7]'
    fine = Result(returncode=0)
    answers = [Result(returncode=0, stdout=names), fine, fine, fine]
    commands, _ = driven(SSH.fetch("gpu:r", tmp_path), answers)
    assert {"--no-links", "--no-devices", "--no-specials"} <= set(commands[2].argv)
    assert "--archive" not in commands[2].argv
    assert commands[2].argv[-1] == f"{tmp_path}/.fetch/"
    assert commands[2].stdin == "rank0.h.nsys-rep"


def run_there(command: Command) -> "subprocess.CompletedProcess[str]":
    """What a host's shell would do with the line that ssh hands it."""
    return subprocess.run(["sh", "-c", command.argv[-1]], capture_output=True, text=True)


def test_a_directory_that_others_may_write_to_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('it ran')")
    ask = SSH.logs(f"gpu:{tmp_path}", follow=False)
    tmp_path.chmod(0o700)
    assert "it ran" in run_there(ask).stdout
    for mode in (0o770, 0o707):
        tmp_path.chmod(mode)
        done = run_there(ask)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is not a directory of this user alone" in done.stderr


def test_another_users_directory_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('it ran')")
    tmp_path.chmod(0o755)
    try:
        os.chown(tmp_path, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can make a directory of another user")
    for verb in (SSH.status, SSH.stop):
        done = run_there(next(verb(f"gpu:{tmp_path}")))
        assert (done.returncode, done.stdout) == (2, "")
    listed = run_there(next(SSH.fetch(f"gpu:{tmp_path}", tmp_path)))
    assert (listed.returncode, listed.stdout) == (2, "")
    removed = run_there(next(SSH.cleanup(f"gpu:{tmp_path}")))
    assert removed.returncode == 2
    assert (tmp_path / "job.py").exists()


@pytest.mark.parametrize(
    ("code", "kind"), [(2, SettingsError), (3, ToolError), (5, JobError), (127, ToolError)]
)
def test_refusals_of_the_agent_keep_their_exit_code(code: int, kind: type[GpuProfileError]) -> None:
    with pytest.raises(kind, match="why not"):
        driven(HostLauncher(report_dir=Path("/tmp")).submit(JOB, PLAN), [said("why not", code)])


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a\nb"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(SettingsError, match="is not a host"):
        RemoteHost(host=host)


def test_ids_that_are_none() -> None:
    for job_id in ("", "gpu", "gpu:", ":dir"):
        with pytest.raises(SettingsError, match="names no job"):
            SSH.logs(job_id, follow=False)
    with pytest.raises(SettingsError, match="no host"):
        plan(SshLauncher(**{**vars(SSH), "address": ""}).gpus())
