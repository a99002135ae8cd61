"""run, exec, logs, status, stop of the local container, as the ancestor's users know them."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile.command import Result
from tests import invoked
from tests.conftest import HOSTILE_NAMES

pytestmark = [pytest.mark.docker, pytest.mark.image]

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(image: str, tmp_path: Path) -> Iterator[Invoke]:
    """The verbs on a container of this test's own."""
    name, _, tag = image.rpartition(":")
    env = {"IMAGE": name, "VERSION": tag, "CONTAINER": f"gpu-profile-test-{os.getpid()}"}
    directory = invoked.reporting_here(tmp_path)
    call = functools.partial(invoked.invoke, directory=directory, **env)
    yield call
    call("stop")


def test_the_container_starts_once_and_stops_once(invoke: Invoke) -> None:
    assert "not there" in invoke("status").stdout
    assert "started from" in invoke("run").stdout
    assert "runs already" in invoke("run").stdout
    assert "running" in invoke("status").stdout
    assert invoke("logs").returncode == 0
    assert "stopped" in invoke("stop").stdout
    assert "does not run" in invoke("stop").stdout


def test_words_and_exit_code_survive_exec(invoke: Invoke) -> None:
    invoke("run")
    script = "import sys; print(ascii(sys.argv[1:]))"
    said = invoke("exec", "--", "python3", "-c", script, *HOSTILE_NAMES)
    assert said.stdout.strip() == ascii([*HOSTILE_NAMES]), said.stderr
    assert invoke("exec", "--", "sh", "-c", "exit 42").returncode == 42


@pytest.mark.parametrize("words", [("exec", "--", "true"), ("logs",)])
def test_without_a_container_they_say_what_to_do(invoke: Invoke, words: tuple[str, ...]) -> None:
    refused = invoke(*words)
    assert refused.returncode == 3
    assert refused.stderr.startswith("error: there is no container gpu-profile-test")
    assert "`invoke run` starts it" in refused.stderr


def test_logs_of_a_job_that_is_not_there_end_in_a_line(invoke: Invoke) -> None:
    refused = invoke("logs", "--job", "docker://nope")
    assert refused.returncode == 3
    assert "error: `docker logs nope` exited with 1" in refused.stderr


def test_a_port_that_is_taken_is_a_line(invoke: Invoke, tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (tmp_path / ".env").open("a") as env:
            env.write(f"PORT_MAP='-p 127.0.0.1:{port}:80'\n")
        refused = invoke("run")
    assert refused.returncode == 2, refused.stderr
    assert "PORT_MAP" in refused.stderr
