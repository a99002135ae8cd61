"""Reports out of pods: whole, checked, and each loss named."""

from pathlib import Path
from typing import Any

import pytest

from gpu_profile.command import Command, Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import Interrupted, JobError, ReportError, SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes import nsys_probe
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.reports import copy_reports
from tests.unit.launchers.kubernetes_objects import (
    answer,
    driven,
    ended,
    items,
    mpijob,
    name_of_new_pod,
    pod,
    refused,
    waiting,
)

OPTIONS = PodOptions(image=ImageRef(name="gpu-profile"), wait_s=2)
MPI = MpiJobLauncher(cluster=KubernetesCluster(namespace="team"), options=OPTIONS)
TO = Path("/reports/train-1")
OK = Result(returncode=0)
LAUNCHER = pod("train-1-launcher-x")
WORKERS = (pod("train-1-worker-0"), pod("train-1-worker-1"))


def said(text: str) -> Result:
    return Result(returncode=0, stdout=text)


def copied(rank: int, here: str = "123 456") -> list[Result]:
    """The answers of one pod with one report: list, export, what is known, tar, unpack, cksum."""
    name = f"rank{rank}.train-1-worker-{rank}.nsys-rep"
    listing = said(f"{name}\n123 456 {name}\n")
    return [listing, OK, OK, OK, OK, said(f"{here} {TO}/{name}\n")]


def summed_again(now: str, here: str = "9 9") -> list[Result]:
    """The answers about a file that arrived with another checksum: the pod's, and the one here."""
    name = "rank0.train-1-worker-0.nsys-rep"
    return [said(f"{now} {name}\n"), said(f"{here} {TO}/{name}\n")]


def fetched(*answers: Result) -> list[Command]:
    _, commands = driven(MPI.fetch("team/train-1", TO), answer(mpijob("Running")), *answers)
    return commands


def test_every_worker_is_read_and_checked() -> None:
    commands = fetched(items(*WORKERS), *copied(0), *copied(1))
    tars = [c for c in commands if "tar" in c.argv and "-cf" in c.argv]
    assert [c.stdout_file for c in tars] == [
        TO / ".train-1-worker-0.tar",
        TO / ".train-1-worker-1.tar",
    ]
    assert tars[0].argv[-1] == "rank0.train-1-worker-0.nsys-rep"


def test_only_what_is_expected_is_unpacked() -> None:
    commands = fetched(items(*WORKERS), *copied(0), *copied(1))
    unpack = next(command.argv for command in commands if "unpack" in command.argv)
    assert unpack[1].endswith("/agent/job.py")
    assert unpack[2:] == ("unpack", "--exports", f"{TO}/.train-1-worker-0.tar", str(TO))


@pytest.mark.parametrize("verb", ["fetch", "stop"])
def test_a_job_of_somebody_else_is_left_alone(verb: str) -> None:
    theirs = mpijob("Running")
    theirs["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "helm"}
    steps = MPI.fetch("team/train-1", TO) if verb == "fetch" else MPI.stop("team/train-1")
    with pytest.raises(SettingsError, match="team/train-1 was not started by gpu-profile"):
        driven(steps, answer(theirs))


def test_what_arrives_cut_is_copied_again() -> None:
    again = [*summed_again("123 456"), *copied(0)[3:]]
    commands = fetched(items(*WORKERS), *copied(0, here="9 9"), *again, *copied(1))
    assert sum("-cf" in c.argv for c in commands) == 3


def test_what_a_running_job_replaced_meanwhile_is_whole() -> None:
    again = summed_again("9 9")
    commands = fetched(items(*WORKERS), *copied(0, here="9 9"), *again, *copied(1))
    assert sum("-cf" in c.argv for c in commands) == 2


def test_what_never_arrives_whole_is_named() -> None:
    cut = [*copied(0, here="9 9"), *summed_again("123 456")]
    with pytest.raises(ReportError, match=r"rank0.* of train-1-worker-0 did not arrive whole"):
        fetched(items(*WORKERS), *cut, *cut[3:] * 3, *copied(1))


def test_a_full_disk_here_is_named_at_once_with_the_way_on() -> None:
    full = Result(
        returncode=0, stderr='"Unhandled Error" err="write /dev/stdout: no space left on device"'
    )
    listing, export, known, _, cut, checked = copied(0, here="9 9")
    with pytest.raises(ReportError) as caught:
        fetched(items(*WORKERS), listing, export, known, full, cut, checked, *copied(1))
    assert "of train-1-worker-0 did not arrive whole: no space is left in /reports/train-1" in str(
        caught.value
    )
    assert "Make room; `invoke fetch --job train-1` goes on: the pods have them still" in str(
        caught.value
    )


def test_a_connection_that_is_cut_while_a_pod_is_asked_is_made_again() -> None:
    cut = refused("error: read tcp 10.0.0.9:51804->10.0.0.1:6443: read: connection reset by peer")
    commands = fetched(items(*WORKERS), cut, OK, cut, OK, *copied(0), *copied(1))
    assert sum("-cf" in c.argv for c in commands) == 2


def test_a_worker_that_is_gone_is_named_and_the_other_one_read() -> None:
    with pytest.raises(ReportError) as caught:
        fetched(items(WORKERS[0]), *copied(0))
    assert "train-1-worker-1 is gone, its reports with it" in str(caught.value)
    assert "/reports/train-1 holds those that could" in str(caught.value)


def test_a_worker_made_anew_holds_none_of_the_run() -> None:
    with pytest.raises(ReportError, match="train-1-worker-1 has no /wd/train-1"):
        fetched(items(*WORKERS), *copied(0), Result(returncode=96))


def test_a_run_that_never_began_lost_nothing() -> None:
    fetched(items(*WORKERS), Result(returncode=96), Result(returncode=96))


def test_a_pod_that_may_not_be_entered_is_named() -> None:
    denied = refused("Error from server (Forbidden): pods is forbidden: User x cannot create")
    with pytest.raises(
        ReportError, match="worker-1 cannot be read, and has its reports still: Err"
    ):
        fetched(items(*WORKERS), *copied(0), denied)


def test_an_ended_pod_cannot_be_read() -> None:
    with pytest.raises(ReportError, match=r"train-1-worker-1 on node-1 cannot be read \(exit code"):
        fetched(items(WORKERS[0], ended("train-1-worker-1", 137, reason="OOMKilled")), *copied(0))


def test_a_pod_that_refused_its_directory_of_the_node_has_no_reports() -> None:
    pods = items(WORKERS[0], ended("train-1-worker-1", 97))
    on_nodes = mpijob("Running")
    on_nodes["metadata"]["annotations"]["gpu-profile.io/host-path"] = "/tmp/train-1"
    driven(MPI.fetch("team/train-1", TO), answer(on_nodes), pods, *copied(0))
    with pytest.raises(ReportError, match=r"worker-1 on node-1 cannot be read \(exit code 97"):
        fetched(pods, *copied(0))  # the program's own code


def test_reports_of_a_node_are_named_where_no_pod_can_be_read() -> None:
    on_nodes = mpijob("Running")
    on_nodes["metadata"]["annotations"]["gpu-profile.io/host-path"] = "/tmp/train-1"
    with pytest.raises(ReportError) as caught:
        driven(MPI.fetch("team/train-1", TO), answer(on_nodes), items(ended("train-1-worker-0", 0)))
    left = "; node-1 has its reports in /tmp/train-1"
    assert f"train-1-worker-0 on node-1 cannot be read (succeeded){left}" in str(caught.value)
    assert "worker-1 is gone, and its node has its reports in /tmp/train-1" in str(caught.value)


def succeeded(*marks: str, questions: tuple[Result, ...] = ()) -> None:
    steps = MPI.fetch("team/train-1", TO)
    answers = (*copied(0), *copied(1), *map(said, marks), *questions)
    driven(steps, answer(mpijob("Succeeded")), items(*WORKERS), *answers)


def test_ranks_on_every_worker() -> None:
    succeeded(".ran.0.train-1-worker-0\n", ".ran.1.train-1-worker-1\n.ran.3.train-1-worker-1\n")


@pytest.mark.parametrize(
    ("marks", "used"),
    [((".ran.0.train-1-worker-0\n.ran.1.train-1-worker-0", ""), "train-1-worker-0 alone"),
     (("", ""), "none")],
    ids=["one", "none"],
)  # fmt: skip
def test_a_success_on_fewer_hosts_than_asked_is_none(marks: tuple[str, ...], used: str) -> None:
    with pytest.raises(JobError) as caught:
        succeeded(*marks, questions=(items(),))
    assert "See that the image's mpirun reads --hostfile" in str(caught.value)
    assert f"of 2 workers mpirun used {used}: train-1-worker-0, train-1-w" in str(caught.value)


def test_a_worker_that_was_deleted_before_mpirun_reached_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = pod("train-1-launcher-x")
    for made, when in ((launcher, "03:00:09"), (WORKERS[0], "03:00:01"), (WORKERS[1], "03:00:11")):
        monkeypatch.setitem(made["metadata"], "creationTimestamp", f"2026-11-21T{when}Z")
    with pytest.raises(JobError) as caught:
        succeeded(".ran.0.train-1-worker-0", "", questions=(items(launcher),))
    line = "train-1-worker-1 was deleted before mpirun reached it, and made anew"
    assert line in str(caught.value)
    assert "--hostfile" not in str(caught.value)


def test_a_stopped_job_that_never_had_pods_has_nothing_to_lose() -> None:
    steps = MPI.fetch("team/train-1", TO)
    driven(steps, answer(mpijob("Running", stopped=True)), items())


@pytest.mark.parametrize("pods", [(), (pod("train-1-worker-0", "Pending"),)], ids=["no", "idle"])
def test_a_job_whose_pods_never_ran_has_nothing_to_lose(pods: tuple[Any, ...]) -> None:
    driven(MPI.fetch("team/train-1", TO), answer(mpijob()), items(*pods))


def test_cksum_of_a_path_with_spaces() -> None:
    assert copy_reports.parse_sums("12 34 a b.nsys-rep\ncksum: x: No such file\n") == {
        "a b.nsys-rep": "12 34"
    }
    assert copy_reports.parse_sums("12 34 /to/a.b\n", "/to/") == {"a.b": "12 34"}


def test_a_pod_that_could_not_be_told_to_stop_is_said_after_the_others_were() -> None:
    steps = MPI.stop("team/train-1")
    dead = refused(
        'error: error sending request: Post "https://10.0.0.2:10250/exec/team/x?command=sh": dial '
        "tcp 10.0.0.2:10250: connect: connection refused"
    )
    with pytest.raises(ToolError, match="team/train-1 goes on, not every pod") as caught:
        driven(steps, answer(mpijob("Running")), OK, items(LAUNCHER), items(*WORKERS), dead, OK)
    assert caught.value.what.endswith(
        "error sending request: dial tcp 10.0.0.2:10250: connect: connection refused"
    )
    assert "kubectl get nodes" in caught.value.hint


def test_a_pod_that_comes_up_meanwhile_is_told_too_and_each_once() -> None:
    first, _ = WORKERS
    coming = pod("train-1-worker-1", "Pending")
    answers = (items(first, coming), OK, OK, items(*WORKERS), OK)
    told = (answer(mpijob("Running")), OK, items(LAUNCHER), *answers)
    _, commands = driven(MPI.stop("team/train-1"), *told)
    names = [name for c in commands for name in c.argv if "exec" in c.argv and "-worker-" in name]
    assert names == ["train-1-worker-0", "train-1-worker-1"]


def test_a_job_whose_launcher_does_not_run_yet_is_suspended() -> None:
    steps = MPI.stop("team/train-1")
    _, commands = driven(steps, answer(mpijob()), OK, items(), OK)
    assert '--patch={"spec": {"runPolicy": {"suspend": true}}}' in commands[-1].argv


def test_a_job_that_was_stopped_before_its_ranks_has_nothing_to_lose() -> None:
    leaving = pod("train-1-worker-0")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T03:02:00Z"
    driven(MPI.fetch("team/train-1", TO), answer(mpijob("Suspended", stopped=True)), items(leaving))


def test_cleaning_up_looks_until_the_job_is_gone() -> None:
    gone = refused('Error from server (NotFound): mpijobs "train-1" not found')
    _, commands = driven(MPI.cleanup("team/train-1"), OK, answer(mpijob()), OK, gone)
    assert [c.argv[2] for c in commands if c.argv[0] == "kubectl"] == ["delete", "get", "get"]


def test_a_job_that_does_not_go_is_said() -> None:
    with pytest.raises(JobError, match="still there after 180 s"):
        driven(MPI.cleanup("team/train-1"), OK, *[answer(mpijob()), OK] * 180)


def asked(*answers: Result) -> Any:
    job = Job(name="train-1", command=("true",))
    return driven(nsys_probe.ask_for_help(KubernetesCluster(), job, OPTIONS), *answers)


def test_nsys_is_asked_in_a_pod_that_goes_away() -> None:
    done = answer(ended("train-1-probe", 0))
    help_text, commands = asked(OK, done, said("usage: nsys"), OK)
    assert help_text == "usage: nsys"
    assert commands[-1].argv[1:4] == ("delete", "pod", name_of_new_pod(commands[0]))


def test_an_image_that_is_not_there_is_said_at_once() -> None:
    pulling = answer(waiting("train-1-probe", "ImagePullBackOff", "not found"))
    with pytest.raises(JobError, match="ImagePullBackOff: not found"):
        asked(OK, pulling, OK, OK)


def test_an_image_without_nsys_says_so() -> None:
    broken = answer(waiting("train-1-probe", "RunContainerError", 'exec: "nsys": not found'))
    with pytest.raises(JobError, match='"nsys": not found'):
        asked(OK, broken, OK, OK)


def test_an_image_of_another_architecture_says_so() -> None:
    end = ended("train-1-probe", 255, "exec /bin/bash: exec format error")
    with pytest.raises(JobError, match="the node is of another architecture"):
        asked(OK, answer(end), said("exec /bin/bash: exec format error"), OK)


@pytest.mark.parametrize("denied", ["get pods", "get pods/log", "delete pods"])
def test_a_right_that_lacks_while_asking_is_said_and_the_pod_removed(denied: str) -> None:
    done = answer(ended("train-1-probe", 0))
    said_no = refused(f"Error from server (Forbidden): User x cannot {denied}")
    answers = {"get pods": (said_no, OK), "get pods/log": (done, said_no, OK)}
    with pytest.raises(ToolError, match=f"cannot {denied}"):
        asked(OK, *answers.get(denied, (done, OK, said_no)))


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_asking_that_is_interrupted_leaves_no_pod(answers: int) -> None:
    """Also while the pod is created: it may be there before kubectl says so."""
    job = Job(name="train-1", command=("true",))
    steps = nsys_probe.ask_for_help(KubernetesCluster(), job, OPTIONS)
    create = next(steps)
    for one in (OK, answer(pod("train-1-probe", "Pending")))[:answers]:
        steps.send(one)
    remove = steps.throw(KeyboardInterrupt())
    assert remove.argv[1:4] == ("delete", "pod", name_of_new_pod(create))
    with pytest.raises(KeyboardInterrupt):
        steps.send(OK)


def test_submitting_that_is_interrupted_says_where_to_look() -> None:
    steps = MPI.submit(Job(name="train-1", command=("true",)), NsysPlan(options=()))
    next(steps)
    with pytest.raises(Interrupted, match=r"kubectl get mpijobs\.v2beta1\.kubeflow\.org train-1"):
        steps.throw(KeyboardInterrupt())


def test_asking_is_bounded() -> None:
    starting = answer(pod("train-1-probe", "Pending"))
    with pytest.raises(JobError, match="not running after 2 s: not started yet"):
        asked(OK, *[starting, OK] * 3, OK, OK)


def test_what_is_here_already_is_left_also_under_another_rank() -> None:
    """A Deployment's pods get numbers at the fetch; each window of a job is fetched once."""
    name = "rank0.train-1-worker-0.1.nsys-rep"
    new = "rank0.train-1-worker-0.2.nsys-rep"
    listing = said(f"1 9 {name}\n2 9 {new}\n")
    known = said("1 9 rank1.train-1-worker-0.1.nsys-rep\n")
    here = said(f"2 9 {TO}/{new}\n")
    steps = copy_reports.copy_reports(MPI.cluster, WORKERS[0], "/wd/train-1", TO)
    problem, commands = driven(steps, listing, OK, known, OK, OK, here)
    (tar,) = [command for command in commands if "-cf" in command.argv]
    assert (problem, tar.argv[-2:]) == ("", ("--", new))
