"""profile --manifest compose.yaml with a real docker compose: a service of the user's file."""

import functools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile.command import Result
from tests import invoked

pytestmark = [pytest.mark.docker, pytest.mark.image]
COMPOSE = """
services:
  train:
    image: IMAGE
    entrypoint: []
    command: python3 -c 'import os, sys; print(os.environ["WHO"], "$$"); sys.exit(3)'
    environment: {WHO: "it's ${WHO:-me}"}
    depends_on: [store]
  store: {image: IMAGE, entrypoint: [sleep, "300"]}
"""


class Project:
    """A directory with a compose file, whose name is the project's."""

    def __init__(self, directory: Path, image: str) -> None:
        self.directory = invoked.reporting_here(directory)
        self.file = directory / "compose.yaml"
        self.file.write_text(f"name: gp-test-{os.getpid()}" + COMPOSE.replace("IMAGE", image))
        self.invoke = functools.partial(invoked.invoke, directory=directory, WHO="x")

    def profile(self, *words: str) -> Result:
        return self.invoke("profile", f"--manifest={self.file}", "--container=train", *words)

    def compose(self, *words: str) -> str:
        argv = ["docker", "compose", f"--file={self.file}", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def project(image: str, tmp_path: Path) -> Iterator[Project]:
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("no docker compose: install its plugin")
    project = Project(tmp_path, image)
    yield project
    project.compose("down", "--timeout=1")


def test_a_service_runs_once_beside_its_own_container(project: Project) -> None:
    before = project.file.read_text()
    done = project.profile()
    assert done.returncode == 5, done.stderr
    assert "failed with exit code 3" in done.stderr
    (path,) = project.directory.glob("*/run.json")
    record = json.loads(path.read_text())
    assert [facts["rank"] for facts in record["reports"]] == [0]
    assert record["handle"] == f"docker://{record['id']}"
    assert "it's x $\n" in path.with_name("output.log").read_text()
    assert project.compose("ps", "--services").split() == ["store"]
    assert project.file.read_text() == before
