"""nsys in a volume, for a Docker job of an image that is not ours."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import ToolError
from gpu_profile.job import Job, NsysPlan, ProfileSpec, Resources
from gpu_profile.launchers.agent.job_directory import AGENT
from gpu_profile.launchers.docker.launcher import DockerLauncher

OURS, THEIRS = ImageRef(name="gpu-profile", tag="v1"), ImageRef(name="theirs", tag="1")
LAUNCHER = DockerLauncher(
    image=THEIRS, carrier_image=OURS, report_dir=Path("/tmp/reports"), options=("--shm-size=1g",)
)
JOB = Job(
    name="train-1",
    command=("python", "train.py"),
    image=THEIRS,
    resources=Resources(gpus_per_node=0),
)
DIGEST = "0f3c" * 16
FACTS = {"digest": DIGEST, "glibc": "2.29", "architecture": "x86_64", "nsys": "2023.4.4"}
DESCRIBED = Result(returncode=0, stdout=json.dumps(FACTS))
DONE = Result(returncode=0)


def config(**values: Any) -> Result:
    return Result(returncode=0, stdout=json.dumps(values))


THEIR_CONFIG = config()
"""That of `docker import`."""


def answer(steps: Steps[Job], *results: Result) -> tuple[list[Command], Job]:
    """The commands of steps that get these answers, and what they return."""
    commands = [next(steps)]
    try:
        for result in results:
            commands.append(steps.send(result))
    except StopIteration as end:
        job: Job = end.value
        return commands, job
    raise AssertionError(f"one more: {commands[-1]}")


def test_an_image_of_ours_is_left_as_it_is() -> None:
    same = dataclasses.replace(LAUNCHER, image=OURS)
    assert process.plan_value(same.carry(JOB, wanted=False)) == ((), JOB)
    labelled = config(Labels={"io.github.gpu-profile.layers": "nsys"})
    assert answer(LAUNCHER.carry(JOB, wanted=False), labelled)[1] == JOB


def test_an_image_with_our_label_and_a_broken_nsys_is_told_of_the_carrier() -> None:
    broken = Result(returncode=127, stderr="exec: nsys: not found")
    steps = LAUNCHER.probe(JOB)
    next(steps)
    with pytest.raises(
        ToolError, match=r"asking nsys for its options: .* --carry brings another nsys"
    ):
        steps.send(broken)


def test_another_image_gets_a_volume_that_our_image_fills() -> None:
    theirs = config(Labels=None, Entrypoint=["/enter.sh"], User="1000")
    answers = (theirs, DESCRIBED, DONE, DONE, DONE)
    commands, carried = answer(LAUNCHER.carry(JOB, wanted=False), *answers)
    _, describe, make, fill, check = map(str, commands)
    assert "--entrypoint=python3 gpu-profile:v1 /opt/gpu-profile/agent/carried.py" in describe
    assert (
        make
        == f"docker volume create --label=gpu-profile.carrier={DIGEST} gpu-profile-0f3c0f3c0f3c"
    )
    assert "source=gpu-profile-0f3c0f3c0f3c,target=/opt/gpu-profile --entrypoint=true" in fill
    assert "--shm-size=1g" in check, "a check with other options would see another /tmp"
    assert "--entrypoint=/opt/gpu-profile/carrier/bin/python3 theirs:1" in check
    made, run = map(str, process.plan(LAUNCHER.submit(carried, NsysPlan(options=()))))
    assert made == "mkdir -m 1777 /tmp/reports/train-1/container"
    assert "source=/tmp/reports/train-1/container,target=/wd/train-1" in run
    assert "target=/opt/gpu-profile,readonly,volume-nocopy" in run
    assert run.endswith(
        " --entrypoint=/opt/gpu-profile/carrier/bin/python3 --shm-size=1g theirs:1"
        " -E /opt/gpu-profile/agent/profile_ranks.py --nsys=/opt/gpu-profile/carrier/bin/nsys"
        " --ranks=all --output=/wd/train-1 -- /enter.sh python train.py"
    )
    assert "LD_LIBRARY_PATH" not in run
    (probe,) = process.plan(LAUNCHER.probe(carried))
    assert "--entrypoint=/opt/gpu-profile/carrier/bin/nsys theirs:1 profile --help" in str(probe)


REFUSALS = {
    "musl": (
        Result(returncode=127, stderr="docker: exec /opt/x/python3: no such file or directory"),
        "theirs:1: it has no glibc (Alpine has musl). It takes an image with glibc",
    ),
    "an old glibc": (
        Result(returncode=1, stderr="python3: libc.so.6: version `GLIBC_2.29' not found"),
        "theirs:1: its glibc is older than 2.29. It takes a newer image",
    ),
    "an architecture": (
        Result(returncode=255, stderr="exec /opt/x/python3: exec format error"),
        "theirs:1: it is of another architecture. Build the carrier's image on such a machine",
    ),
    "no /tmp": (
        Result(returncode=3, stderr="nsys records in /tmp, which cannot be written (Read-only)\n"),
        "(Read-only). RUN_OPTS=--tmpfs=/tmp gives the container one",
    ),
    "no libgcc_s": (
        Result(returncode=3, stderr="nsys needs libgcc_s.so.1, which is not here\n"),
        "which is not here. Install its package in the image, such as libgcc-s1",
    ),
}


@pytest.mark.parametrize(("said", "line"), REFUSALS.values(), ids=REFUSALS.keys())
def test_an_image_that_cannot_have_it_is_refused_before_the_job(said: Result, line: str) -> None:
    with pytest.raises(ToolError) as refused:
        answer(LAUNCHER.carry(JOB, wanted=False), THEIR_CONFIG, DESCRIBED, DONE, DONE, said)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_image_of_ours_without_a_carrier_says_how_to_make_one() -> None:
    older = Result(returncode=2, stderr="can't open file '/opt/gpu-profile/agent/carried.py'")
    with pytest.raises(ToolError, match=r"gpu-profile:v1 holds no nsys .*INSTALL_CARRIER=true"):
        answer(LAUNCHER.carry(JOB, wanted=False), THEIR_CONFIG, older)


def test_reports_are_taken_out_of_the_container_s_folder(tmp_path: Path) -> None:
    """Its owner is the image's user. What is no report stays where it is."""
    folder = tmp_path / "container"
    folder.mkdir(mode=0o777)
    for name in ("rank0.h.nsys-rep", "trace.json"):
        (folder / name).write_text(name)
    process.drive(LAUNCHER.fetch("train-1", tmp_path))
    assert (tmp_path / "rank0.h.nsys-rep").read_text() == "rank0.h.nsys-rep"
    assert [path.name for path in folder.iterdir()] == ["trace.json"]
    export = LAUNCHER.export("train-1", tmp_path / "rank0.h.nsys-rep", tmp_path / "x.sqlite")
    assert "gpu-profile:v1 nsys export" in str(export)


BY_TORCH = dataclasses.replace(JOB, profile=ProfileSpec(tool="torch"))


@pytest.mark.parametrize("launcher", [LAUNCHER, dataclasses.replace(LAUNCHER, image=OURS)])
def test_torch_profiler_takes_our_agent_to_any_image_and_no_nsys(launcher: DockerLauncher) -> None:
    answers = config(Entrypoint=["/enter.sh"]), DONE
    commands, job = answer(launcher.carry(BY_TORCH, wanted=False), *answers)
    assert f"--network=none --entrypoint=python3 {launcher.image} -c" in str(commands[1])
    _, run = map(str, process.plan(launcher.submit(job, NsysPlan(options=()))))
    assert f"--mount=type=bind,source={AGENT},target=/opt/gpu-profile/agent,readonly" in run
    assert run.endswith(
        f" --entrypoint=python3 --shm-size=1g {launcher.image}"
        " /opt/gpu-profile/agent/profile_ranks.py --ranks=all --output=/wd/train-1 --with=torch"
        " -- /enter.sh python train.py"
    )


@pytest.mark.parametrize("code", [1, 126, 127])
def test_an_image_whose_python_cannot_run_our_agent_is_refused(code: int) -> None:
    steps = LAUNCHER.carry(BY_TORCH, wanted=False)
    next(steps)
    steps.send(THEIR_CONFIG)
    with pytest.raises(ToolError, match=r"theirs:1 has no python3 of 3\.8 or newer"):
        steps.send(Result(returncode=code))
