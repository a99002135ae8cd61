"""A job's state and the line that says why, from what the API server answers."""

from typing import Any

import pytest

from gpu_profile.command import Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from tests.unit.launchers.kubernetes_objects import (
    answer,
    driven,
    ended,
    items,
    mpijob,
    pod,
    refused,
    unscheduled,
    waiting,
    warning,
)

OPTIONS = PodOptions(image=ImageRef(name="gpu-profile"))
MPI = MpiJobLauncher(cluster=KubernetesCluster(namespace="team"), options=OPTIONS)
TORCH = PyTorchJobLauncher(cluster=KubernetesCluster(namespace="team"), options=OPTIONS)
WORKERS = (pod("train-1-worker-0"), pod("train-1-worker-1"))
LAUNCHER = pod("train-1-launcher-x")
NOW = Result(returncode=0, stdout="2026-11-21T03:01:00Z\n")
LATE = Result(returncode=0, stdout="2026-11-21T03:11:00Z\n")


def status(*answers: Result) -> JobStatus:
    job_status, _ = driven(MPI.status("team/train-1"), *answers)
    assert isinstance(job_status, JobStatus)
    return job_status


def test_success_is_the_operators_word() -> None:
    job_status = status(answer(mpijob("Running", "Succeeded")), items(*WORKERS))
    assert job_status == JobStatus(state=JobState.SUCCEEDED, exit_code=0)


def test_failure_says_the_launchers_last_line_and_code() -> None:
    said = "noise\ngpu-profile: train-1-worker-1 did not answer by ssh in 600 s: no route"
    pods = (ended("train-1-launcher-x", 7, said), *WORKERS)
    job_status = status(answer(mpijob("Failed")), items(*pods))
    assert (job_status.state, job_status.exit_code) == (JobState.FAILED, 7)
    assert "did not answer by ssh in 600 s: no route" in job_status.reason
    assert "noise" not in job_status.reason


def test_workers_that_were_deleted_are_named_and_no_control_character() -> None:
    """mpirun's last line is NULs where its ssh to a worker ends."""
    launcher = ended("train-1-launcher-x", 1, "\x1b[31mlost a daemon\x1b[0m\n\x00\x00\n")
    launcher["metadata"]["creationTimestamp"] = "2026-11-21T03:00:05Z"
    anew = pod("train-1-worker-1", "Pending")
    anew["metadata"]["creationTimestamp"] = "2026-11-21T03:00:09Z"
    job_status = status(answer(mpijob("Failed")), items(launcher, anew))
    names = "train-1-worker-0, train-1-worker-1 went away while the job ran: train-1-launcher-x: "
    assert job_status.reason == f"{names}exit code 1: Error: lost a daemon"
    alone = status(answer(mpijob("Failed")), items(ended("train-1-launcher-x", 1, "\x00")))
    assert "\x00" not in alone.reason


def test_running_needs_the_launcher_too() -> None:
    assert status(answer(mpijob()), items(LAUNCHER, *WORKERS)).state is JobState.RUNNING
    only_workers = status(answer(mpijob()), items(*WORKERS), items(), NOW)
    assert only_workers.state is JobState.PENDING


def test_pending_says_what_is_missing() -> None:
    missing = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    pods = (unscheduled("train-1-worker-0", missing), pod("train-1-worker-1"))
    job_status = status(answer(mpijob()), items(*pods), items(), NOW)
    assert job_status.state is JobState.PENDING
    assert "2 Insufficient nvidia.com/gpu" in job_status.reason


@pytest.mark.parametrize(("clock", "state"), [(NOW, JobState.PENDING), (LATE, JobState.FAILED)])
def test_a_master_that_waits_for_a_worker_without_a_node(clock: Result, state: JobState) -> None:
    pods = (pod("train-1-master-0"), unscheduled("train-1-worker-0", "Insufficient nvidia.com/gpu"))
    answers = (answer(mpijob("Running")), items(*pods), items(), clock)
    job_status, _ = driven(TORCH.status("team/train-1"), *answers)
    assert job_status.state is state
    assert "train-1-worker-0: Unschedulable: Insufficient nvidia.com/gpu" in job_status.reason


def test_a_wait_is_bounded_and_its_end_says_why() -> None:
    pods = (unscheduled("train-1-worker-0", "0/2 nodes are available"),)
    job_status = status(answer(mpijob()), items(*pods), items(), LATE)
    assert job_status.state is JobState.FAILED
    assert job_status.reason.startswith("not running after 600 s: train-1-worker-0: Unschedulable")


def test_a_missing_image_is_no_wait_at_all() -> None:
    pods = (waiting("train-1-worker-0", "ImagePullBackOff", "no such image: nope"),)
    job_status = status(answer(mpijob()), items(*pods), items())
    assert job_status.state is JobState.FAILED
    assert "no such image: nope" in job_status.reason


def test_pods_that_were_never_made_are_explained_by_events() -> None:
    quota = warning("train-1", 'pods "train-1-worker-0" is forbidden: exceeded quota: small')
    other = warning("train-10-worker-0", "none of ours")
    job_status = status(answer(mpijob()), items(), items(quota, other), NOW)
    assert job_status.state is JobState.PENDING
    assert "exceeded quota: small" in job_status.reason


def test_podsecurity_ends_the_wait() -> None:
    refused_pod = warning("train-1", 'pods "x" is forbidden: violates PodSecurity "restricted"')
    job_status = status(answer(mpijob()), items(), items(refused_pod))
    assert job_status.state is JobState.FAILED


def test_events_that_may_not_be_read_are_done_without() -> None:
    denied = refused("Error from server (Forbidden): events is forbidden: User x cannot list")
    job_status = status(answer(mpijob()), items(), denied, NOW)
    assert job_status.state is JobState.PENDING
    assert job_status.reason.startswith("no operator has made its pods yet; `invoke doctor")


def test_suspended_waits_in_a_queue_unless_we_did_it() -> None:
    assert status(answer(mpijob("Suspended")), items()).state is JobState.PENDING
    ours = status(answer(mpijob("Suspended", stopped=True)), items())
    assert ours.state is JobState.CANCELLED


def test_an_evicted_worker_is_named() -> None:
    gone = pod("train-1-worker-1", "Failed", reason="Evicted", message="disk pressure")
    job_status = status(answer(mpijob("Failed")), items(LAUNCHER, gone))
    assert "train-1-worker-1: Evicted: disk pressure" in job_status.reason


def test_a_cluster_that_is_away_is_waited_for() -> None:
    away = refused("The connection to the server 10.0.0.1:6443 was refused")
    slept = Result(returncode=0)
    job_status = status(away, slept, away, slept, answer(mpijob("Succeeded")), items())
    assert job_status.state is JobState.SUCCEEDED


def test_a_cluster_that_stays_away_is_an_error_with_exit_3() -> None:
    away = refused("The connection to the server 10.0.0.1:6443 was refused")
    with pytest.raises(ToolError, match="Check the kubeconfig"):
        status(*[away, Result(returncode=0)] * 13)


def test_a_deleted_job_is_said_to_be_so() -> None:
    missing = refused('Error from server (NotFound): mpijobs.kubeflow.org "train-1" not found')
    with pytest.raises(SettingsError, match="may have been deleted"):
        status(missing)


def conditioned(name: str, **statuses: str) -> dict[str, Any]:
    return pod(name, conditions=[{"type": t, "status": s} for t, s in statuses.items()])


def test_a_node_that_fell_silent_is_named_while_the_run_goes_on() -> None:
    silent = conditioned("train-1-worker-1", ContainersReady="True", Ready="False")
    job_status = status(answer(mpijob("Running")), items(LAUNCHER, silent))
    assert job_status.state is JobState.RUNNING
    assert job_status.reason == "train-1-worker-1: node-1 does not answer"


@pytest.mark.parametrize(
    ("clock", "state"), [(NOW, JobState.RUNNING), (LATE, JobState.FAILED)], ids=["early", "late"]
)
def test_a_pod_that_never_says_it_ended_ends_the_wait(clock: Result, state: JobState) -> None:
    taken = pod("train-1-worker-1")
    taken["metadata"]["deletionTimestamp"] = "2026-11-21T03:02:00Z"
    job_status = status(answer(mpijob("Running")), items(LAUNCHER, taken), clock)
    assert job_status.state is state
    assert ("train-1-worker-1 was deleted, and node-1 does not" in job_status.reason) == (
        clock is LATE
    )


def test_an_elastic_job_without_a_master_is_led_by_its_first_worker() -> None:
    job = mpijob("Failed")
    job["spec"] = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
    workers = (ended("train-1-worker-0", 9), ended("train-1-worker-1", 0))
    job_status, _ = driven(TORCH.status("team/train-1"), answer(job), items(*workers))
    assert (job_status.state, job_status.exit_code) == (JobState.FAILED, 9)
    assert "is gone" not in job_status.reason


def held(*codes: int) -> JobStatus:
    pods = [pod(f"train-1-{n}") for n in ("master-0", "worker-0")]
    lines = [f"gpu-profile: {p['metadata']['name']} ended with {c}; its reports are in /wd/x"
             for p, c in zip(pods, codes, strict=False)]  # fmt: skip
    answers = [
        answer(mpijob("Running")),
        items(*pods),
        Result(returncode=0, stdout="\n".join(lines)),
    ]
    job_status, _ = driven(TORCH.status("team/train-1"), *answers)
    assert isinstance(job_status, JobStatus)
    return job_status


def test_held_pods_end_the_job_once_all_have_ended() -> None:
    assert held(0, 0) == JobStatus(state=JobState.SUCCEEDED, exit_code=0)
    assert held(0).state is JobState.RUNNING
    failed = held(0, 3)
    assert failed == JobStatus(
        state=JobState.FAILED, reason="train-1-worker-0 ended with 3", exit_code=3
    )


def test_a_program_that_has_ended_beside_a_sidecar_ends_the_job() -> None:
    """The pod runs on with its sidecar, and the wrapper was killed before it could wait."""
    dead = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    beside = pod(
        "train-1-master-0",
        containerStatuses=[
            {"name": "a-sidecar", "state": {"running": {}}},
            {"name": "pytorch", "state": dead},
        ],
    )
    beside["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "pytorch"}
    job = {"metadata": {"name": "train-1"}, "spec": {}, "status": {}}
    silent = Result(returncode=0)
    job_status, _ = driven(TORCH.status("team/train-1"), answer(job), items(beside), silent)
    assert job_status.state is JobState.RUNNING  # it is started again
    beside["spec"]["restartPolicy"] = "Never"
    job_status, _ = driven(TORCH.status("team/train-1"), answer(job), items(beside), silent)
    assert (job_status.state, job_status.exit_code) == (JobState.FAILED, 137)
    assert job_status.reason == "train-1-master-0: exit code 137: OOMKilled"


def test_a_program_that_succeeded_and_was_not_fetched_in_time_stays_a_success() -> None:
    """KUBE_HOLD has passed: the container has ended, and a sidecar keeps its pod running."""
    statuses = [{"name": "pytorch", "state": {"terminated": {"exitCode": 0}}}]
    beside = pod("train-1-master-0", containerStatuses=statuses)
    beside["spec"]["restartPolicy"] = "Never"
    line = "gpu-profile: train-1-master-0 ended with 0; its reports are in /wd/x"
    answers = answer(mpijob("Running")), items(beside), Result(returncode=0, stdout=line)
    job_status, _ = driven(TORCH.status("team/train-1"), *answers)
    assert job_status == JobStatus(state=JobState.SUCCEEDED, exit_code=0)
