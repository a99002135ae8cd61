"""A run whose name the engine has already, of another REPORT_DIR, gets the next free name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.container import RUN_LABEL
from gpu_profile.errors import NameTakenError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.progress import Progress
from gpu_profile.runs import record
from gpu_profile.runs.runner import Runner
from tests.invoked import invoke

DATA = Path(__file__).parents[2].resolve() / "data"
FakeTool = Callable[..., Callable[[], list[list[str]]]]
HELP = DATA / "nsys-help" / "2023.4.txt"
ALL_REDUCE = DATA / "nccl-tests-all_reduce_perf-h200x4.txt"
ENDED = '{"Status": "exited", "Running": false, "ExitCode": 0}'
ENGINE = f"""
case "$*" in
  *"nsys profile --help") cat {HELP} ;;
  *--name=train-*-3\\ *) ;;
  "run --detach"*)
    echo 'docker: Error response from daemon: Conflict. The container name "/x" is already in' \\
      'use by container "0f3c".' >&2
    exit 125 ;;
  info*) echo '{{"nvidia": {{}}}}' ;;
  "container inspect"*State*) printf '%s\\n' '{ENDED}' '{{"{RUN_LABEL}": ""}}' ;;
  logs*) cat {ALL_REDUCE} ;;
esac
"""
"""An engine on which the first two names of each run are taken."""


def test_a_run_gets_a_name_that_is_free_on_the_engine(tmp_path: Path, fake_tool: FakeTool) -> None:
    calls = fake_tool("docker", ENGINE)
    runs = tmp_path / "runs"
    runs.mkdir()
    words = ("profile", "--detach", "--gpus=0", "--name=train", "--", "true")
    started = invoke(*words, directory=tmp_path, REPORT_DIR=str(runs))
    assert started.returncode == 0, started.stderr
    (directory,) = runs.glob("train*")
    assert directory.name.endswith("-3")
    assert started.stdout == f"docker://{directory.name}\n"
    assert f"{started.stdout.strip()} submitted; its run directory is {directory}" in started.stderr
    assert record.load_run(directory).handle == started.stdout.strip()
    assert sorted(runs.iterdir()) == sorted([directory, runs / f".{directory.name}.job"])
    mounts = [word for call in calls() for word in call if word.startswith("--mount=")]
    assert mounts[-1] == f"--mount=type=bind,source={directory},target=/wd/{directory.name}"
    assert [call for call in calls() if call[:2] == ["container", "rm"]] == []


def test_an_nccl_test_gets_a_name_that_is_free_on_the_engine(
    tmp_path: Path, fake_tool: FakeTool
) -> None:
    calls = fake_tool("docker", ENGINE)
    fake_tool("nvidia-smi", 'for n in 0 1 2 3; do echo "GPU $n: (UUID: GPU-$n)"; done')
    runs = tmp_path / "runs"
    runs.mkdir()
    words = ("test", "--suite=nccl", "--at=512M", "--name=train", "--set=NCCL_TESTS_VERSION=2.18.0")
    done = invoke(*words, directory=tmp_path, REPORT_DIR=str(runs))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all_reduce: no wrong value"
    (directory,) = runs.glob("train*")
    assert directory.name.endswith("-all-reduce-3")
    (*_, started) = (call for call in calls() if call[:2] == ["run", "--detach"])
    assert started[-2:] == ["-J", f"/wd/{directory.name}/all_reduce.nccl.json"]


def test_a_run_without_a_name_never_acts_on_the_container_that_has_it(
    tmp_path: Path, fake_tool: FakeTool
) -> None:
    calls = fake_tool("docker", ENGINE)
    directory = record.create_run(tmp_path, "train-1")
    launcher = DockerLauncher(image=ImageRef(name="x"), report_dir=tmp_path)
    runner = Runner(launcher=launcher, directory=directory, progress=Progress())
    with pytest.raises(NameTakenError, match=r"starting train-1: .*Run it again"):
        runner.start(Job(command=("x",), name="train-1"), NsysPlan(options=()), ())
    started = calls()
    refused = invoke("fetch", "--job", "train-1", directory=tmp_path, REPORT_DIR=str(tmp_path))
    assert refused.returncode == 5
    assert "is already in use by container" in refused.stderr
    invoke("stop", "--job", "train-1", directory=tmp_path, REPORT_DIR=str(tmp_path))
    assert calls() == started
