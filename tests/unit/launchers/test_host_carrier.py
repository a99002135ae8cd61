"""nsys in a directory that is copied to a machine, over ssh and on this one."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import ToolError
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.ssh import SshLauncher

OURS = ImageRef(name="gpu-profile", tag="v1")
SSH = SshLauncher(address="me@gpu", report_dir=Path("/tmp"), carrier_image=OURS)
JOB = Job(name="train-1", command=("python", "train.py"), resources=Resources(gpus_per_node=0))
DESCRIBED = Result(returncode=0, stdout=json.dumps({"digest": "0f3c" * 16, "glibc": "2.29"}))
DONE, ABSENT = Result(returncode=0), Result(returncode=3, stderr="x holds no carrier")
COPY = ".gpu-profile/carrier-0f3c0f3c0f3c"


def answer(steps: Steps[Job], results: Sequence[Result]) -> tuple[list[Command], Job]:
    commands, left = [next(steps)], list(results)
    try:
        while left:
            commands.append(steps.send(left.pop(0)))
    except StopIteration as end:
        job: Job = end.value
        return commands, job
    raise AssertionError(f"one more: {commands[-1]}")


def test_a_copy_that_is_there_is_used() -> None:
    (_, check), job = answer(SSH.carry(JOB, wanted=True), (DESCRIBED, DONE))
    assert f"me@gpu 'python3 - check {COPY}'" in str(check)
    assert process.plan_value(SSH.carry(JOB, wanted=False)) == ((), JOB)
    (probe,) = process.plan(SSH.probe(job))
    assert f"--nsys={COPY}/carrier/bin/nsys profile --help" in str(probe)
    start = process.plan(SSH.submit(job, NsysPlan(options=())))[-1]
    assert json.loads(start.stdin)["nsys"] == f"{COPY}/carrier/bin/nsys"


def test_a_copy_appears_whole_or_not_at_all() -> None:
    answers = (DESCRIBED, ABSENT, DONE, DONE, DONE, DONE, DONE)
    commands, job = answer(SSH.carry(JOB, wanted=True), answers)
    _, _, _, pack, unpack, discard, _ = map(str, commands)
    assert "--entrypoint=tar gpu-profile:v1 -C /opt/gpu-profile -cf - agent carrier >" in pack
    assert f"tar -xof - -C {COPY}.new && rm -rf {COPY} && mv {COPY}.new {COPY}" in unpack
    assert "job.py discard" in discard
    assert job.carrier is not None
    assert job.carrier.directory == COPY


def test_a_machine_where_it_does_not_work_is_refused() -> None:
    musl = Result(returncode=3, stderr="nsys needs GLIBC_2.29, which is not here\n")
    with pytest.raises(ToolError, match=r"carried to me@gpu: nsys needs GLIBC_2\.29.*SSH_DIR"):
        answer(SSH.carry(JOB, wanted=True), (DESCRIBED, ABSENT, DONE, DONE, DONE, DONE, musl))


def test_this_machine_keeps_it_in_its_cache() -> None:
    host = HostLauncher(report_dir=Path("/tmp"), carrier_image=OURS)
    (_, check), job = answer(host.carry(JOB, wanted=True), (DESCRIBED, DONE))
    assert check.argv[:3] == ("python3", "-", "check")
    assert job.carrier is not None
    assert Path(job.carrier.directory).is_absolute()
