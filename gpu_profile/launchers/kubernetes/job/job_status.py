"""Find a job's state from its conditions, then from its pods, then from its events."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from gpu_profile.command import Steps, make_command
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import KubernetesCluster, Object, check_kubectl_result, split_id
from gpu_profile.launchers.kubernetes.state import (
    Kind,
    get_annotation,
    get_job,
    get_pods,
    get_warnings,
    list_conditions,
)

_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_ENDED = re.compile(r"gpu-profile: (?P<pod>\S+) ended with (?P<code>\d+);")
_PATIENCE_S = 60  # from a pod's deletion time until its node counts as lost
_MORE = "the rest of its pods was not made yet"
_NO_OPERATOR = "no operator has made its pods yet; `invoke doctor --on` says whether one runs"


def get_job_status(cluster: KubernetesCluster, kind: Kind, job_id: str) -> Steps[JobStatus]:
    """Return the job's state, with the reason if it waits or failed."""
    job = yield from get_job(cluster, kind, job_id)
    job_pods = yield from get_pods(cluster, kind.selector, job_id)
    stopped = bool(get_annotation(job, "stopped"))
    holds = list_conditions(job)
    if kind.success_condition in holds:
        # A PyTorchJob succeeds when its master does. Its workers may still write their reports.
        writing = kind.holds and not kind.is_outlived and any(map(pods.is_running, job_pods))
        return JobStatus(state=JobState.RUNNING if writing else JobState.SUCCEEDED, exit_code=0)
    if kind.failure_condition in holds:
        leader = _find_leader(kind, job)
        status = _make_failed_status(
            leader, holds[kind.failure_condition], job_pods, stopped=stopped
        )
        gone = ", ".join(kind.list_gone(job, job_pods))
        what = f"{gone} went away while the job ran: {status.reason}".rstrip(": ")
        return replace(status, reason=what) if gone and not stopped else status
    if kind.suspension_condition in holds:
        state = JobState.CANCELLED if stopped else JobState.PENDING
        return JobStatus(state=state, reason="" if stopped else "suspended: waits in a queue")
    ended = yield from _read_exit_codes(cluster, kind, job_id, job_pods)
    if ended:
        return _make_held_status(ended, stopped=stopped)
    if stopped and not kind.suspend and not any(map(pods.is_running, job_pods)):
        return JobStatus(state=JobState.CANCELLED, reason="no pod of it ran")
    return (yield from _make_unfinished_status(cluster, kind, job_id, job, job_pods))


def _find_leader(kind: Kind, job: Object) -> str:
    """Return what the leading pod's name contains.

    An elastic PyTorchJob has no master: its first worker hosts the rendezvous.
    """
    replicas = job.get("spec", {}).get("pytorchReplicaSpecs", {"Master": {}})
    return kind.leader if "Master" in replicas else "-worker-0"


def _make_failed_status(
    leader: str, condition: Object, job_pods: Sequence[Object], *, stopped: bool
) -> JobStatus:
    leaders = [pod for pod in job_pods if leader in pods.get_name(pod)]
    end = next((pods.get_termination(pod) for pod in leaders if pods.get_termination(pod)), None)
    endings = [
        f"{pods.get_name(pod)}: {ending}"
        for pod in job_pods
        if (ending := pods.describe_ending(pod))
    ]
    reason = "; ".join(endings) or str(condition.get("message", "")).rstrip(": ")
    if not leaders:
        reason = f"the pod of {leader.strip('-')} is gone: {reason}"
    return JobStatus(
        state=JobState.CANCELLED if stopped else JobState.FAILED,
        reason=reason,
        exit_code=int(end["exitCode"]) if end else None,
    )


def _read_exit_codes(
    cluster: KubernetesCluster, kind: Kind, job_id: str, job_pods: Sequence[Object]
) -> Steps[Mapping[str, int]]:
    """Return the exit codes of pods that wait for the fetch, by pod, once all ranks have ended.

    The last line of a pod's output has its code: `gpu-profile: NAME ended with 1;`. Empty until
    all pods have ended. A pod that no longer waits, but runs on with a sidecar, has its output.
    """
    up = [pod for pod in job_pods if pods.is_running(pod) or pods.has_left_others(pod)]
    if not kind.holds or not job_pods or len(up) < len(job_pods):
        return {}
    namespace, name = split_id(job_id)
    result = yield cluster.kubectl(
        "logs",
        f"--selector={kind.workers.format(name=name)}",
        "--tail=1",
        *kind.choose_container(),
        namespace=namespace,
    )
    codes = {m["pod"]: int(m["code"]) for m in _ENDED.finditer(result.stdout)}
    return codes if len(codes) >= len(job_pods) else {}


def _make_held_status(codes: Mapping[str, int], *, stopped: bool) -> JobStatus:
    bad = {pod: code for pod, code in codes.items() if code}
    if stopped:
        return JobStatus(state=JobState.CANCELLED, exit_code=next(iter(bad.values()), 0))
    if not bad:
        return JobStatus(state=JobState.SUCCEEDED, exit_code=0)
    reason = ", ".join(f"{pod} ended with {code}" for pod, code in bad.items())
    return JobStatus(state=JobState.FAILED, reason=reason, exit_code=next(iter(bad.values())))


def _make_unfinished_status(
    cluster: KubernetesCluster, kind: Kind, job_id: str, job: Object, job_pods: Sequence[Object]
) -> Steps[JobStatus]:
    """Return RUNNING, PENDING with a reason, or FAILED if the job cannot start or is too late."""
    lost = yield from _find_lost_pod(job_pods)
    if lost:
        return JobStatus(state=JobState.FAILED, reason=lost)
    failed = [pod for pod in job_pods if kind.holds and pods.has_failed_beside_others(pod)]
    if failed:
        ends = (f"{pods.get_name(pod)}: {pods.describe_ending(pod)}" for pod in failed)
        code = (pods.get_termination(failed[0]) or {}).get("exitCode")
        return JobStatus(state=JobState.FAILED, reason="; ".join(ends), exit_code=code)
    if _is_running(kind, job, job_pods):
        return _make_running_status(job_pods)
    troubles = pods.list_troubles(job_pods)
    warnings = yield from get_warnings(cluster, job_id)
    hopeless = [trouble for trouble in troubles if trouble.hopeless]
    refused = [line for line in warnings if "violates PodSecurity" in line]
    if hopeless or (refused and not job_pods):
        return JobStatus(state=JobState.FAILED, reason=str([*hopeless, *refused][0]))
    reason = pods.explain_waiting(troubles, warnings) or (_MORE if job_pods else _NO_OPERATOR)
    late = yield from _measure_lateness(job)
    if late:
        return JobStatus(state=JobState.FAILED, reason=f"not running after {late} s: {reason}")
    endings = [
        f"{pods.get_name(pod)}: {end}" for pod in job_pods if (end := pods.describe_ending(pod))
    ]
    if endings:
        return JobStatus(state=JobState.RUNNING, reason="; ".join(endings))
    return JobStatus(state=JobState.PENDING, reason=reason)


def _is_running(kind: Kind, job: Object, job_pods: Sequence[Object]) -> bool:
    """Return whether a job runs, by its condition `Running` or by its pods.

    The operator may be behind, and a PyTorchJob is Running with its master, which may wait for
    workers that never start.
    """
    phases = [pods.get_phase(pod) for pod in job_pods]
    if "Running" in list_conditions(job) and not (kind.holds and "Pending" in phases):
        return True
    started = any(_find_leader(kind, job) in pods.get_name(pod) for pod in job_pods)
    return started and all(phase == "Running" for phase in phases)


def _make_running_status(job_pods: Sequence[Object]) -> JobStatus:
    silent = [
        f"{pods.get_name(pod)}: {pods.get_node(pod)} does not answer"
        for pod in job_pods
        if pods.is_deserted(pod)
    ]
    return JobStatus(state=JobState.RUNNING, reason="; ".join(silent))


def _find_lost_pod(job_pods: Sequence[Object]) -> Steps[str]:
    """Return why waiting is useless: a pod was deleted on a node that does not answer.

    Kubernetes keeps such a pod until the node comes back or is deleted:
    https://kubernetes.io/docs/tasks/run-application/force-delete-stateful-set-pod/
    """
    if any(pod["metadata"].get("deletionTimestamp") for pod in job_pods):
        since = (yield from _ask_clock()) - timedelta(seconds=_PATIENCE_S)
        for pod in job_pods:
            if pods.is_overdue(pod, since.strftime(_STAMP)):
                return f"{pods.get_name(pod)} was deleted, and {pods.get_node(pod)} does not answer"
    return ""


def _measure_lateness(job: Object) -> Steps[int]:
    """Return the seconds that the job had to start if they are over, otherwise 0."""
    allowed = get_annotation(job, "wait-seconds")
    started = job.get("status", {}).get("startTime") or job["metadata"].get("creationTimestamp")
    if not allowed or not started:
        return 0
    age = (yield from _ask_clock()) - _parse_time(started)
    return int(allowed) if age > timedelta(seconds=int(allowed)) else 0


def _ask_clock() -> Steps[datetime]:
    """Return this machine's time, by a command: steps read nothing but the answers to commands."""
    clock = yield make_command("date", "-u", f"+{_STAMP}")
    return _parse_time(check_kubectl_result(clock, "reading the clock").stdout.strip())


def _parse_time(stamp: str) -> datetime:
    return datetime.strptime(stamp, _STAMP).replace(tzinfo=timezone.utc)
