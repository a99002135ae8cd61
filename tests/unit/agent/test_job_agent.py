"""job.py as a program: start, status, logs, stop, each twice; with a fake nsys and no GPU."""

import ast
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT, SAMPLES, scripts_of

# Records as nsys does: runs the command, then writes the report that --output names.
FAKE_NSYS = """#!/usr/bin/env python3
import signal, subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("NVIDIA Nsight Systems version 2025.1.1.1"))
out = next(w for w in sys.argv if w.startswith("--output="))[9:]
command = [w for w in sys.argv[2:] if not w.startswith("--")]
child = subprocess.Popen(command)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
code = child.wait()
open(out + ".nsys-rep", "w").write("report")
sys.exit(128 - code if code < 0 else code)
"""


@pytest.fixture
def nsys(tmp_path: Path) -> Path:
    path = tmp_path / "nsys"
    path.write_text(FAKE_NSYS)
    path.chmod(0o755)
    return path


def agent(*words: str, stdin: str = "", cwd: Path | None = None) -> tuple[int, str, str]:
    argv = [sys.executable, str(AGENT / "job.py"), *words]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def spec(nsys: Path, *command: str, **more: object) -> str:
    arguments = ["--ranks=all", "--output=.", "--trace=nvtx", "--", *command]
    return json.dumps({"arguments": arguments, "nsys": str(nsys), **more})


def status(job: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(agent("status", str(job))[1])
    return answer


def ended(job: Path) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while (state := status(job))["state"] in {"starting", "running"}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return state


def test_a_job_runs_once_however_often_it_is_started(tmp_path: Path, nsys: Path) -> None:
    job = tmp_path / "job; $(touch pwned)"
    text = spec(nsys, "python3", "-c", "print('hello')")
    for _ in range(2):
        assert agent("start", str(job), stdin=text)[0] == 0
    state = ended(job)
    assert (state["state"], state["exit_code"]) == ("succeeded", 0)
    assert state["nsys"]["version"] == "2025.1.1.1"
    assert agent("logs", str(job), "--follow")[1].count("hello") == 1
    assert [name.endswith(".nsys-rep") for name in json.loads(agent("names", str(job))[1])] == [
        True
    ]


def test_another_job_does_not_get_its_directory(tmp_path: Path, nsys: Path) -> None:
    assert agent("start", str(tmp_path / "job"), stdin=spec(nsys, "true"))[0] == 0
    code, _, said = agent("start", str(tmp_path / "job"), stdin=spec(nsys, "false"))
    assert code == 2
    assert "holds another job" in said


def test_stop_twice_ends_it_with_its_report(tmp_path: Path, nsys: Path) -> None:
    job = tmp_path / "job"
    agent("start", str(job), stdin=spec(nsys, "sh", "-c", "echo up; exec sleep 600"))
    while "up" not in (job / "job.log").read_text():
        time.sleep(0.05)
    for _ in range(2):
        assert json.loads(agent("stop", str(job))[1])["state"] == "cancelled"
    assert list(job.glob("*.nsys-rep"))


def test_an_exit_code_and_a_signal_are_told_apart(tmp_path: Path, nsys: Path) -> None:
    for name, script, code, reason in (
        ("a", "exit 42", 42, ""),
        ("b", "kill -KILL $$", 137, "ended by SIGKILL"),
    ):
        agent("start", str(tmp_path / name), stdin=spec(nsys, "sh", "-c", script))
        state = ended(tmp_path / name)
        assert (state["state"], state["exit_code"], state["reason"]) == ("failed", code, reason)


def test_a_supervisor_that_was_killed_is_lost(tmp_path: Path, nsys: Path) -> None:
    job = tmp_path / "job"
    agent("start", str(job), stdin=spec(nsys, "sleep", "2"))
    supervisor = int(Path(f"/proc/{status(job)['pid']}/stat").read_text().split()[3])
    os.kill(supervisor, 9)
    deadline = time.monotonic() + 120
    while (state := status(job))["state"] == "running":
        assert time.monotonic() < deadline
    assert state["state"] == "lost"
    assert "supervisor is gone" in state["reason"]


def test_secrets_of_the_environment_are_not_written(tmp_path: Path, nsys: Path) -> None:
    job = tmp_path / "job"
    text = spec(nsys, "sh", "-c", 'test "$TOKEN" = hidden', env={"TOKEN": "hidden"})
    agent("start", str(job), stdin=text)
    assert ended(job)["exit_code"] in {0, 1}
    assert not [p for p in job.rglob("*") if p.is_file() and b"hidden" in p.read_bytes()]


def test_programs_are_those_of_the_active_environment(tmp_path: Path, nsys: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho from the environment\n")
    python.chmod(0o755)
    job = tmp_path / "job"
    env = {"VIRTUAL_ENV": str(python.parents[1])}
    agent("start", str(job), stdin=spec(nsys, "python", env=env))
    ended(job)
    assert "from the environment" in agent("logs", str(job))[1]


@pytest.mark.parametrize(
    ("words", "more", "code", "said"),
    [
        (("no-such-program",), {}, 5, "no program 'no-such-program'"),
        (("true",), {"cwd": "/nowhere"}, 2, "working directory /nowhere does not exist"),
        (("true",), {"nsys": "/nowhere/nsys"}, 3, "no nsys on this machine"),
    ],
)
def test_refusals(
    tmp_path: Path, nsys: Path, words: tuple[str, ...], more: dict[str, str], code: int, said: str
) -> None:
    text = json.dumps({**json.loads(spec(nsys, *words)), **more})
    found, _, err = agent("start", str(tmp_path / "job"), stdin=text)
    assert found == code
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "job" / "job.json").exists()


def test_no_job_there(tmp_path: Path) -> None:
    for verb in ("status", "stop"):
        code, _, said = agent(verb, str(tmp_path))
        assert code == 2
        assert "holds no job" in said


def test_a_report_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    archive, to = tmp_path / "a.tar", tmp_path / "to"
    to.mkdir()
    (tmp_path / "rank0.h.nsys-rep").write_bytes(bytes(10**6))
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "rank0.h.nsys-rep", "rank0.h.nsys-rep")
    archive.write_bytes(archive.read_bytes()[:500_000])
    code, _, said = agent("unpack", str(archive), str(to))
    assert code == 3
    assert "incomplete" in said
    assert not list(to.glob("*.nsys-rep"))
    assert not archive.exists()


def test_an_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "to").mkdir()
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "x", "../escaped")
    code, _, said = agent("unpack", str(tmp_path / "a.tar"), str(tmp_path / "to"))
    assert code == 3
    assert "no report" in said
    assert not (tmp_path / "escaped").exists()


def test_the_agent_is_complete() -> None:
    """What a copied file imports of ours is copied too, and is there."""
    copied = {*scripts_of(AGENT), *scripts_of(SAMPLES)}
    elsewhere = {path.name for path in AGENT.parent.rglob("*.py")} - copied
    for path in (*AGENT.glob("*.py"), *SAMPLES.glob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {f"{n}.py" for n in names} & elsewhere, path.name


def test_the_agent_is_python_3_8() -> None:
    for path in AGENT.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))
