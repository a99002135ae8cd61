""".ci/sweep: a run of CI leaves no container of its own, and keeps those of others."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gpu_profile.settings.places import ROOT

LISTED = """
labels=(old io.github.gpu-profile.run=a new io.github.gpu-profile.run=b foreign maintainer=c)
[[ $1 != ps ]] || printf '%s\\t%s\\n' "${labels[@]}"
"""
"""What `docker ps` prints: a container from before the run, the run's, and a foreign one."""


def test_the_runs_containers_and_its_cluster_are_removed(
    tmp_path: Path, fake_tool: Callable[[str, str], Callable[[], list[list[str]]]]
) -> None:
    docker = fake_tool("docker", LISTED)
    down = tmp_path / "tests/live/kubernetes/down"
    down.parent.mkdir(parents=True)
    down.write_text(f"#!/bin/sh\necho \"$@\" >'{tmp_path}/down'\n")
    down.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/sweep", tmp_path / ".ci")
    env = {"PATH": os.environ["PATH"], "GPU_PROFILE_OLD_CONTAINERS": "old"}
    done = subprocess.run(
        (tmp_path / ".ci/sweep",),
        env=env | {"GPU_PROFILE_CLUSTER": "/k8s"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert docker()[1:] == [["rm", "--force", "new"]]
    assert done.stderr.splitlines()[:-1] == ["sweep: removes container new"]
    assert (tmp_path / "down").read_text() == "--all /k8s\n"
