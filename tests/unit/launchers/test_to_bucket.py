"""Reports by way of a bucket: signed in batches, secret, completed or given up."""

import functools
import json
from pathlib import Path

import pytest

from gpu_profile.command import Command, Result
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes import pod_exec
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.reports import copy_reports, to_bucket
from gpu_profile.s3.parts import PART_BYTES
from tests.unit.launchers.kubernetes_objects import answer, driven, pod
from tests.unit.settings_for import settings_for

POD = pod("train-1-master-0")
EXECUTE = functools.partial(pod_exec.execute_in_pod, KubernetesCluster(), POD)
PLACE, NAME, TO = "s3://team/night/train-1", "rank0.n.nsys-rep", Path("/reports/train-1")
OK = Result(returncode=0)
NO = Result(returncode=3, stderr="An error occurred (AccessDenied)")


def signed(numbers: range, upload: str = "u1") -> Result:
    return answer({"upload": upload, "urls": [f"https://x/{n}?Sig" for n in numbers], "ca": "PEM"})


def tagged(numbers: range) -> Result:
    tags = json.dumps({"etags": [f"e{n}" for n in numbers]})
    return Result(returncode=0, stdout=f"Warning: from kubectl\n{tags}\n")


def send(size: int, *answers: Result) -> tuple[dict[str, str], list[Command]]:
    steps = to_bucket.send_files(EXECUTE, "/wd/train-1", {NAME: size}, PLACE)
    problems, commands = driven(steps, *answers)
    return dict(problems), commands


def test_a_large_report_is_signed_in_batches_and_completed_in_order() -> None:
    first, second = range(1, 101), range(101, 151)
    answers = (signed(first), tagged(first), signed(second), tagged(second), OK)
    problems, commands = send(150 * PART_BYTES - 7, *answers)
    assert problems == {}
    assert all("Sig" not in " ".join(command.argv) for command in commands)
    request = json.loads(commands[2].stdin)
    assert request == {"numbers": list(second), "several": True, "upload": "u1"}
    parts = json.loads(commands[3].stdin)["parts"]
    last = {"file": NAME, "offset": 149 * PART_BYTES, "size": PART_BYTES - 7}
    assert parts[-1] == {**last, "url": "https://x/150?Sig"}
    assert "--stdin" in commands[3].argv
    tags = [f"e{n}" for n in (*first, *second)]
    assert commands[-1].argv[2:] == ("complete", f"{PLACE}/{NAME}")
    assert json.loads(commands[-1].stdin) == {"upload": "u1", "etags": tags}


def test_a_small_report_is_one_request() -> None:
    problems, commands = send(9, signed(range(1, 2), ""), tagged(range(1, 2)))
    assert (problems, len(commands)) == ({}, 2)


TWO = range(1, 3)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((NO,), "AccessDenied"),
        ((signed(TWO), NO, OK), "AccessDenied"),
        ((signed(TWO), OK, OK), "the pod's answer is damaged"),
        ((signed(TWO), tagged(TWO), NO, OK), "AccessDenied"),
    ],
    ids=["sign", "pod", "damaged", "complete"],
)
def test_what_did_not_arrive_is_given_up(answers: tuple[Result, ...], why: str) -> None:
    problems, commands = send(2 * PART_BYTES, *answers)
    assert why in problems[NAME]
    if len(answers) > 1:
        assert commands[-1].argv[2] == "abort"
        assert json.loads(commands[-1].stdin) == {"upload": "u1"}


def test_an_interrupt_gives_the_upload_up() -> None:
    steps = to_bucket.send_files(EXECUTE, "/wd/train-1", {NAME: 2 * PART_BYTES}, PLACE)
    next(steps)
    steps.send(signed(TWO))
    assert steps.throw(KeyboardInterrupt()).argv[2] == "abort"
    with pytest.raises(KeyboardInterrupt):
        steps.send(OK)


def test_a_bucket_that_cannot_be_used_is_refused_before_the_job() -> None:
    launcher = PyTorchJobLauncher.from_settings(settings_for("KUBE_REPORT_TO=s3://team/night"))
    job, plan = Job(name="train-1", command=("true",)), NsysPlan(options=())
    missing = Result(returncode=3, stderr="there is no bucket team")
    with pytest.raises(SettingsError, match="s3://team/night cannot be used: there is no bucket"):
        driven(launcher.check_job(job, plan), missing)
    driven(launcher.check_job(job, plan), OK)


LISTED = Result(returncode=0, stdout=f"123 456 {NAME}\n")
HERE = Result(returncode=0, stdout=f"123 456 {TO}/{NAME}\n")
NOTHING = Result(returncode=1)


def copy(*answers: Result) -> tuple[str, list[str]]:
    steps = copy_reports.copy_reports(KubernetesCluster(), POD, "/wd/train-1", TO, bucket=PLACE)
    problem, commands = driven(steps, LISTED, OK, OK, *answers)
    return problem, [" ".join(command.argv) for command in commands[3:]]


SENT = (signed(range(1, 2), ""), tagged(range(1, 2)))


def test_a_report_comes_here_from_the_bucket_by_the_same_unpacking() -> None:
    problem, commands = copy(*SENT, OK, OK, HERE)
    assert problem == ""
    assert f"get {PLACE} {NAME}" in commands[2]
    assert f"unpack --exports {TO}/.train-1-master-0.tar {TO}" in commands[3]


@pytest.mark.parametrize("way", [(signed(range(1, 2), ""), NO, NOTHING), (*SENT, OK, OK, NOTHING)])
def test_what_a_pod_cannot_send_comes_by_kubectl_and_is_put_there_from_here(
    way: tuple[Result, ...],
) -> None:
    problem, commands = copy(*way, OK, OK, HERE, OK)
    assert problem == ""
    assert f"tar -C /wd/train-1 -cf - -- {NAME}" in commands[-4]
    assert f"put {PLACE}/{NAME} {TO}/{NAME}" in commands[-1]


def test_what_the_bucket_refuses_from_here_too_is_named() -> None:
    problem, _ = copy(NO, NOTHING, OK, OK, HERE, NO)
    assert problem == f"{NAME} came here and not to {PLACE}: {NO.last_line}"
