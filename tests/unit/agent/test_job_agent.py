"""job.py as a program: start, status, logs, stop, each twice; with a fake nsys and no GPU."""

import ast
import json
import os
import time
from pathlib import Path

import job_spec
import job_state
import pytest

from gpu_profile.launchers.agent.job_directory import AGENT, SAMPLES, list_scripts
from tests.unit.agent.job_agent import agent, ended, fake_nsys, spec, status


@pytest.fixture
def nsys(tmp_path: Path) -> Path:
    return fake_nsys(tmp_path)


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


def test_the_log_holds_no_credential_while_the_job_runs_or_after(
    tmp_path: Path, nsys: Path
) -> None:
    job, printing = tmp_path / "job", "echo $API_TOKEN $MODE; echo up $0; sleep 600"
    words = ("sh", "-c", printing, "ghp_" + "a" * 36)
    environ = {"API_TOKEN": "hunter2xyz", "MODE": "fast-mode"}
    agent("start", str(job), stdin=spec(nsys, *words, env=environ))
    while "up" not in (job / "job.log").read_text():
        time.sleep(0.05)
    assert {"*** fast-mode", "up ***"} <= set((job / "job.log").read_text().splitlines())
    agent("stop", str(job))
    assert "hunter2xyz" not in (job / "job.log").read_text()


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


@pytest.mark.parametrize(("end", "code"), [("touch go", 3), ("stop", 143)])
def test_the_program_outlives_profile_py(tmp_path: Path, nsys: Path, end: str, code: int) -> None:
    job, waits = tmp_path / "job", "echo up; until test -e go; do sleep 0.05; done; exit 3"
    agent("start", str(job), stdin=spec(nsys, "sh", "-c", waits, cwd=str(tmp_path)))
    while "up" not in (job / "job.log").read_text():
        time.sleep(0.05)
    os.kill(status(job)["pid"], 9)
    if end == "stop":
        agent("stop", str(job))
    assert end == "stop" or status(job)["state"] == "running"
    (tmp_path / "go").touch()
    state = ended(job)
    assert (state["exit_code"], state["state"]) == (code, "cancelled" if code == 143 else "failed")
    assert list(job.glob("*.nsys-rep"))


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


@pytest.mark.parametrize(("active", "expected"), [("", "from .venv"), ("active", "from active")])
def test_the_environment_of_the_directory_is_used_unless_one_is_active(
    active: str, expected: str, tmp_path: Path, nsys: Path
) -> None:
    for name in (".venv", "active"):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho from {name}\n")
        python.chmod(0o755)
        (tmp_path / name / "pyvenv.cfg").touch()
    job = tmp_path / "job"
    env = {"VIRTUAL_ENV": str(tmp_path / active) if active else "", "CONDA_PREFIX": ""}
    text = json.loads(spec(nsys, "python", env=env)) | {"cwd": str(tmp_path)}
    agent("start", str(job), stdin=json.dumps(text))
    ended(job)
    assert expected in agent("logs", str(job))[1]


def test_the_environment_of_inv_is_not_the_programs(tmp_path: Path, nsys: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho from the environment of inv\n")
    python.chmod(0o755)
    for name in ("pyvenv.cfg", "requirements.txt"):
        (tmp_path / ".venv" / name).touch()
    job = tmp_path / "job"
    env = {"VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
    text = json.loads(spec(nsys, "python3", "-c", "print('mine')", env=env)) | {
        "cwd": str(tmp_path)
    }
    agent("start", str(job), stdin=json.dumps(text))
    ended(job)
    log = agent("logs", str(job))[1]
    assert "mine" in log
    assert "of inv" not in log


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
    returncode, _, err = agent("start", str(tmp_path / "job"), stdin=text)
    assert returncode == code
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "job" / "job.json").exists()


def test_no_job_there(tmp_path: Path) -> None:
    for verb in ("status", "stop"):
        code, _, said = agent(verb, str(tmp_path))
        assert code == 2
        assert "holds no job" in said


def test_the_agent_is_complete() -> None:
    """What a copied file imports of ours is copied too, and is there."""
    copied = {Path(name).name for name in (*list_scripts(AGENT), *list_scripts(SAMPLES))}
    elsewhere = {path.name for path in AGENT.parent.rglob("*.py")} - copied
    for path in (*AGENT.glob("*.py"), *SAMPLES.glob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {f"{n}.py" for n in names} & elsewhere, path.name


def test_the_agent_is_python_3_8() -> None:
    for path in AGENT.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize(
    ("word", "advice"), [("python", "Use python3"), ("absent-program", "Name it by its path")]
)
def test_a_program_that_is_not_here_has_advice(word: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(job_state.RefusedError, match=f"no program '{word}' .*{advice}"):
        job_spec.find_job_program(word, tmp_path, {"PATH": str(tmp_path)})
