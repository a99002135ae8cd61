"""Windows on demand through launchers: what runs where, and what is read of the answers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.command import Command, Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.container import RUN_LABEL
from gpu_profile.errors import GpuProfileError, SettingsError, ToolError
from gpu_profile.launchers.agent import windows
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.launchers.ssh import SshLauncher
from gpu_profile.nsys.recorder import RankWindow, Recorder, Window, WindowRequest
from gpu_profile.settings.settings import Settings

ASKED = Result(returncode=0, stdout='{"window": 3, "names": ["rank0.a", "rank1.a"], "start": 9}\n')
ANSWERS = {
    "rank1.a": {"state": "lost", "why": "nsys is gone"},
    "rank0.a": {"state": "done", "report": "rank0.a.3.nsys-rep", "began": 9.5, "note": "full"},
}
ANSWERED = Result(returncode=0, stdout=json.dumps({"window": 3, "answers": ANSWERS}) + "\n")
WINDOW = Window(
    number=3,
    ranks=(
        RankWindow(name="rank0.a", report="rank0.a.3.nsys-rep", note="full"),
        RankWindow(name="rank1.a", why="nsys is gone"),
    ),
    began={"rank0.a": 9.5},
)
REQUEST = WindowRequest(seconds=5, ranks=frozenset({1, 0}))


def drive(
    launcher: Recorder, job_id: str, *results: Result, request: WindowRequest = REQUEST
) -> tuple[Window, list[tuple[str, ...]]]:
    """Answer the launcher's commands by `results`. Returns the window, and each command's words."""
    steps, commands = launcher.record(job_id, request), []
    answers = iter(results)
    command: Command = next(steps)
    while True:
        commands.append(command.argv)
        try:
            command = steps.send(next(answers))
        except StopIteration as stop:
            return stop.value, commands


def test_on_the_host_the_agents_are_asked_in_the_job_s_directory() -> None:
    launcher = HostLauncher(report_dir=Path("/r"))
    window, commands = drive(launcher, "/r/train-1", ASKED, ANSWERED)
    assert window == WINDOW
    script = str(launcher.agent.root / "record_window.py")
    python = launcher.agent.python
    assert commands == [
        (python, script, "request", "/r/train-1", "--seconds=5", "--ranks=0,1"),
        (python, script, "await", "/r/train-1", "3"),
    ]
    _, commands = drive(
        launcher, "/r/t", ASKED, ANSWERED, request=replace(REQUEST, ranks=frozenset())
    )
    assert commands[0][-1] == "--ranks=all"


def test_in_docker_they_are_asked_in_the_container() -> None:
    launcher = DockerLauncher(image=ImageRef.parse("i"), report_dir=Path("/r"))
    state = json.dumps({"Status": "running"}) + "\n" + json.dumps({RUN_LABEL: "train-1"})
    container = Result(returncode=0, stdout=state)
    window, commands = drive(launcher, "train-1", container, ASKED, ANSWERED)
    assert window == WINDOW
    for words in commands[1:]:
        assert words[:4] == ("docker", "exec", "train-1", "sh")
        assert words[-3:][0] in {"/wd/train-1", "await"}
        assert "/opt/gpu-profile/agent/record_window.py" in words


def test_over_ssh_and_on_slurm_they_are_asked_by_the_job_s_own_copy() -> None:
    ssh = SshLauncher(address="me@gpu", report_dir=Path("/r"))
    window, commands = drive(ssh, "me@gpu:.gpu-profile/train-1", ASKED, ANSWERED)
    assert window == WINDOW
    script = "python3 .gpu-profile/train-1/record_window.py"
    ask = "request .gpu-profile/train-1 --seconds=5 --ranks=0,1"
    assert f"exec {script} {ask}" in commands[0][-1]
    assert f"exec {script} await .gpu-profile/train-1 3" in commands[1][-1]
    values = {"SLURM_DIR": "/shared"}
    slurm = SlurmLauncher.from_settings(Settings(launcher_values=values, report_dir=Path("/r")))
    window, commands = drive(slurm, "12", ASKED, ANSWERED)
    assert window == WINDOW
    script = 'exec python3 "$d/record_window.py"'
    assert f'{script} request "$d" --seconds=5 --ranks=0,1' in commands[0][-1]
    assert f'{script} await "$d" 3' in commands[1][-1]


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (Result(returncode=2, stderr="no rank of this job is armed\n"), SettingsError, "armed"),
        (Result(returncode=127, stderr="python3: not found\n"), ToolError, "not found"),
        (Result(returncode=0, stdout="hello\n"), ToolError, "hello"),
    ],
)
def test_a_request_that_fails_is_one_line(
    result: Result, kind: type[GpuProfileError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        drive(HostLauncher(report_dir=Path("/r")), "/r/train-1", result)


@pytest.mark.parametrize(
    "facts",
    [
        *({}, {"window": 1, "answers": ["x"]}, {"window": "x", "answers": {}}),
        {"window": 1, "answers": {"rank0.a": {"state": "done"}}},
    ],
)
def test_a_damaged_answer_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="is damaged"):
        windows.read_window(facts)
