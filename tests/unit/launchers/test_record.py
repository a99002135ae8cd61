"""Windows on demand through launchers: what runs where, and what is read of the answers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.container import RUN_LABEL
from gpu_profile.errors import GpuProfileError, SettingsError, ToolError
from gpu_profile.kubernetes import pod_exec
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.agent import windows
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.launchers.ssh import SshLauncher
from gpu_profile.nsys.recorder import (
    RankWindow,
    Recorder,
    Schedule,
    Window,
    WindowRequest,
    parse_schedule,
)
from gpu_profile.settings.settings import Settings
from tests.unit.launchers.kubernetes_objects import pod

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


PODS = """#!/bin/sh
# kubectl exec POD … -- sh -c SCRIPT sh RECORD_WINDOW.PY WORDS…: a pod's folder is here.
while [ "$1" != exec ]; do shift; done
pod=$2
while [ "$1" != -- ]; do shift; done
shift 6
echo "Warning: a line of kubectl" >&2
[ -d "$PODS/$pod" ] || { echo "$pod is gone" >&2; exit 1; }
cat "$PODS/$pod/$1" && echo "$@" >>"$PODS/$pod/asked"
"""
"""What each pod answers, by verb, lies in its folder; what it was asked is added there."""


@pytest.fixture
def pods(fake_tool: Callable[..., object], tmp_path: Path) -> Path:
    fake_tool("kubectl", PODS.replace("$PODS", str(tmp_path / "pods")))
    for name, now, last in (("web-a", 100.0, 2), ("web-b", 100.5, 0)):
        folder = tmp_path / "pods" / name
        folder.mkdir(parents=True)
        uncounted = [f"rank0.{name}"] if name == "web-b" else []
        armed = {"names": [f"rank0.{name}"], "without_steps": uncounted, "last": last, "now": now}
        done = {"state": "done", "report": f"rank0.{name}.3.nsys-rep", "began": now + 3}
        answers = {"window": 3, "answers": {f"rank0.{name}": done}}
        for verb, facts in (("armed", armed), ("request", {"window": 3}), ("await", answers)):
            (folder / verb).write_text(json.dumps(facts) + "\n")
    return tmp_path / "pods"


def record_in_pods(
    *names: str,
    ranks: frozenset[int] = frozenset(),
    steps: int = 0,
    schedule: Schedule | None = None,
) -> Window:
    cluster = KubernetesCluster(namespace="team")
    calls = pod_exec.call_in_pods(cluster, [pod(name) for name in names], windows.IN_CONTAINER)
    request = replace(REQUEST, ranks=ranks, steps=steps, schedule=schedule)
    return process.drive(windows.record_everywhere(calls, "/wd/train-1", request))


def test_pods_are_asked_for_one_window_at_one_time(pods: Path) -> None:
    window = record_in_pods("web-a", "web-b")
    assert window.number == 3
    assert [rank.report for rank in window.ranks] == [
        "rank0.web-a.3.nsys-rep", "rank0.web-b.3.nsys-rep"
    ]  # fmt: skip
    what = "--number=3 --start=102.500 --seconds=5 --names=rank0.web-a,rank0.web-b"
    expected = ["armed /wd/train-1", f"request /wd/train-1 {what}", "await /wd/train-1 3 --here"]
    for folder in pods.iterdir():
        assert (folder / "asked").read_text().splitlines() == expected


def test_the_number_of_a_window_is_above_those_that_are_here(pods: Path) -> None:
    """A pod that its operator made anew under its name has none: 1 would replace what is here."""
    cluster = KubernetesCluster(namespace="team")
    calls = pod_exec.call_in_pods(cluster, [pod("web-b")], windows.IN_CONTAINER)
    request = replace(REQUEST, ranks=frozenset(), last_window=7)
    process.drive(windows.record_everywhere(calls, "/wd/train-1", request))
    assert "request /wd/train-1 --number=8 " in (pods / "web-b" / "asked").read_text()


def test_a_window_of_steps_takes_marks_in_each_rank(pods: Path) -> None:
    with pytest.raises(SettingsError, match=r"rank0\.web-b: no step of it is marked\. Use --sec"):
        record_in_pods("web-a", "web-b", steps=10)
    record_in_pods("web-a", steps=10)
    requests = (pods / "web-a" / "asked").read_text()
    assert "--seconds=5 --steps=10 --names=rank0.web-a" in requests


def test_a_schedule_is_made_in_each_pod_and_ended_there(pods: Path) -> None:
    """It is not waited for."""
    for folder in pods.iterdir():
        (folder / "schedule").write_text('{"window": 2}\n')
    again = Schedule(every_s=600, keep=48)
    assert record_in_pods("web-a", "web-b", schedule=again).number == 3
    assert record_in_pods("web-a", "web-b", schedule=Schedule(every_s=0, keep=0)).number == 2
    what = "--number=3 --start=102.500 --seconds=5 --every=600 --keep=48"
    for folder in pods.iterdir():
        requests = (folder / "asked").read_text().splitlines()
        assert requests[1].startswith(f"schedule /wd/train-1 {what} --names=rank0.web-a,")
        assert requests[2:] == ["schedule /wd/train-1 --every=0"]
    asked_here = Result(returncode=0, stdout='{"window": 3}\n')
    request = replace(REQUEST, schedule=again)
    window, commands = drive(
        HostLauncher(report_dir=Path("/r")), "/r/t", asked_here, request=request
    )
    assert (window.number, commands[0][2], len(commands)) == (3, "schedule", 1)


@pytest.mark.parametrize("every", ["3s", "soon", "10", "99999999m", ""])
def test_a_time_that_is_no_schedule(every: str) -> None:
    with pytest.raises(SettingsError, match="--every"):
        parse_schedule(every, 48, 2.0)
    assert parse_schedule("2m", 1, 2.0) == Schedule(every_s=120, keep=1)
    with pytest.raises(SettingsError, match="--keep 0 leaves no window"):
        parse_schedule("2m", 0, 2.0)


def test_ranks_of_a_pod_that_goes_away_are_lost_and_named(pods: Path) -> None:
    (pods / "web-b" / "await").unlink()
    window = record_in_pods("web-a", "web-b")
    assert [rank.why for rank in window.ranks if rank.why] == [ANY]
    assert "await: No such file" in window.ranks[1].why


@pytest.mark.parametrize(
    ("names", "ranks", "said"),
    [
        (("web-a", "web-c"), frozenset(), "asking for armed ranks in web-c: web-c is gone"),
        (("web-a",), frozenset({1}), "--ranks 1: not armed. Armed are rank0.web-a"),
        ((), frozenset(), "no rank of this job is armed"),
    ],
)
def test_what_pods_refuse_is_one_line(
    pods: Path, names: tuple[str, ...], ranks: frozenset[int], said: str
) -> None:
    with pytest.raises(GpuProfileError) as caught:
        record_in_pods(*names, ranks=ranks)
    assert said in str(caught.value)
