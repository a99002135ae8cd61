"""Ctrl-C in each phase of a run: what was recorded comes home, and nothing of ours stays behind."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.live.kubernetes.conftest import Cluster, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
Child = subprocess.Popen[str]


@pytest.fixture
def profiling(cluster: Cluster) -> Iterator[Callable[[str], Child]]:
    """`profiling(script)`: a run that a test may interrupt."""
    children = []

    def start(script: str) -> Child:
        where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={cluster.image}")
        words = cluster.argv("profile", *where, "--", "sh", "-c", script)
        children.append(
            subprocess.Popen(
                ("env", "--default-signal=INT", *words),  # a test in the background has none
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


def interrupted(child: Child) -> str:
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=300)
    assert child.returncode == 130, said
    assert "Traceback" not in said
    return said


def until(true: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def phase(cluster: Cluster) -> str:
    records = list(cluster.directory.glob("*/run.json"))
    return str(json.loads(records[0].read_text())["phase"]) if records else ""


def output(cluster: Cluster) -> str:
    return "".join(path.read_text() for path in cluster.directory.glob("*/output.log"))


def test_while_nsys_is_asked(cluster: Cluster, profiling: Callable[[str], Child]) -> None:
    child = profiling("sleep 60")
    until(lambda: any("-probe-" in pod["metadata"]["name"] for pod in cluster.pods()))
    assert "error: interrupted" in interrupted(child)
    left = [pod for pod in cluster.pods() if not pod["metadata"].get("deletionTimestamp")]
    assert left == []
    assert must(cluster.kubectl("get", "mpijobs", "--output=name")) == ""


@pytest.mark.parametrize("when", ["pending", "running"])
def test_before_and_during_the_run(
    cluster: Cluster, profiling: Callable[[str], Child], when: str
) -> None:
    child = profiling("echo started; sleep 60")
    until(lambda: list(cluster.directory.glob("*/run.json")))
    if when == "running":
        until(lambda: output(cluster).count("started") == 2)
    else:
        until(lambda: phase(cluster) == "running")  # submitted; its pods are still to start
    said = interrupted(child)
    assert "stopped by you" in said
    assert when == "pending" or len(cluster.reports()) == 2
    assert must(cluster.kubectl("get", "mpijobs", "--output=name")) == ""


def test_during_the_fetch(cluster: Cluster, profiling: Callable[[str], Child]) -> None:
    child = profiling("sleep 1")
    until(lambda: phase(cluster) == "fetching")
    said = interrupted(child)
    (record,) = cluster.directory.glob("*/run.json")
    assert "still has its reports" in said
    assert f"`invoke fetch --job {record.parent.name}` goes on" in said
    done = cluster.invoke("fetch", "--job", record.parent.name)
    assert done.returncode == 0, done.stderr
    assert len(cluster.reports()) == 2
