"""A job that is refused leaves no run directory, which would be the latest run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.invoked import invoke, reporting_here

HELP = Path(__file__).parents[2].resolve() / "data" / "nsys-help" / "2023.4.txt"
FakeTool = Callable[..., Callable[[], list[list[str]]]]
KUBECTL = """case "$*" in
  *"get pods"*) echo '{"items": []}' ;;
  *) echo '{"metadata": {"labels": {}},
      "status": {"conditions": [{"type": "Running", "status": "True"}]}}' ;;
esac"""
SCONTROL = "echo 'JobId=7 JobName=x JobState=RUNNING Comment=other '"
DOCKER = """case "$*" in
  *State*) printf '%s\\n' '{"Status": "running"}' '{"gpu-profile.run": "train-1"}' ;;
  *Mounts*) echo '[{"Source": "/elsewhere/train-1", "Destination": "/wd/train-1"}]' ;;
esac"""


@pytest.mark.parametrize(
    ("tool", "script", "handle", "words"),
    [
        ("kubectl", KUBECTL, "pytorchjob://team/j", "team/j was not started by gpu-profile"),
        ("kubectl", KUBECTL, "mpijob://team/j", "team/j was not started by gpu-profile"),
        ("scontrol", SCONTROL, "slurm://7", "slurm://7 was not submitted by gpu-profile"),
        ("docker", DOCKER, "docker://train-1", "Add --set REPORT_DIR=/elsewhere"),
    ],
)
def test_fetch_of_a_job_that_is_not_ours_is_refused_at_once(
    tmp_path: Path, fake_tool: FakeTool, tool: str, script: str, handle: str, words: str
) -> None:
    """The job runs: nobody waits for its end."""
    calls = fake_tool(tool, script)
    reporting_here(tmp_path)
    refused = invoke("fetch", "--job", handle, directory=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
    assert words in refused.stderr
    assert list(tmp_path.glob("*/run.json")) == list(tmp_path.glob(".*.job")) == []
    assert not any("logs" in call for call in calls())


def test_a_job_of_which_nothing_is_left_leaves_no_run(tmp_path: Path, fake_tool: FakeTool) -> None:
    """It was ours, and its directory was removed when another REPORT_DIR had its reports."""
    fake_tool("scontrol", "echo 'JobId=7 JobState=COMPLETED ExitCode=0:0 Comment=gpu-profile '")
    reporting_here(tmp_path)
    shared = f"--set=SLURM_DIR={tmp_path}/shared"
    refused = invoke("fetch", "--job", "slurm://7", shared, directory=tmp_path)
    assert refused.returncode == 3, refused.stderr
    assert refused.stderr.splitlines()[-1].endswith(f"so no run was made in {tmp_path}.")
    assert list(tmp_path.glob("*/run.json")) == list(tmp_path.glob(".*.job")) == []


def test_a_job_that_its_launcher_refuses_leaves_no_run(tmp_path: Path, fake_tool: FakeTool) -> None:
    """Slurm knows no such partition."""
    refusal = "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1"
    fake_tool("sbatch", refusal)
    fake_tool("nsys", f"cat {HELP}")
    reporting_here(tmp_path)
    shared = f"--set=SLURM_DIR={tmp_path}/shared"
    words = ("profile", "--on=slurm", "--gpus=0", shared, "--", "true")
    refused = invoke(*words, directory=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert "invalid partition" in refused.stderr
    assert list(tmp_path.glob("true-*")) == list(tmp_path.glob(".*.job")) == []


def test_stop_of_another_report_dirs_job_says_that_its_run_is_not_marked(
    tmp_path: Path, fake_tool: FakeTool
) -> None:
    fake_tool("docker", DOCKER)
    reporting_here(tmp_path)
    stopped = invoke("stop", "--job", "docker://train-1", directory=tmp_path)
    assert stopped.returncode == 0, stopped.stderr
    assert f"no run of {tmp_path} has this job" in stopped.stdout


def test_checks_of_an_image_without_an_engine_are_refused(
    tmp_path: Path, fake_tool: FakeTool
) -> None:
    """All of them would be skipped, which is no failure."""
    fake_tool("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    refused = invoke("test", directory=tmp_path)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith("error: docker ")
