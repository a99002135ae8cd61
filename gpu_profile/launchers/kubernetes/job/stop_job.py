"""End a job's ranks so that nsys completes its reports, and keep the pods, which hold them."""

import json
from collections.abc import Mapping

from gpu_profile.command import Steps
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    Object,
    check_kubectl_result,
    split_id,
)
from gpu_profile.kubernetes.pod_exec import run_shell_in_pod
from gpu_profile.launchers.kubernetes import state
from gpu_profile.launchers.kubernetes.state import Kind

_COMING_S = 30  # for pods that start: one that comes later would run on without its `stop`


def stop_job(cluster: KubernetesCluster, kind: Kind, job_id: str, script: str) -> Steps[None]:
    """Run the shell text `script` in each pod. A job whose pods do not run yet is suspended."""
    job = yield from state.get_own_job(cluster, kind, job_id)
    finished = {kind.success_condition, kind.failure_condition} & set(state.list_conditions(job))
    if finished and not kind.holds:
        return
    mark = {"metadata": {"annotations": {state.STOPPED: "true"}}}
    yield from _patch_job(cluster, kind, job_id, mark)
    speakers = yield from state.get_pods(cluster, kind.speakers, job_id)
    if not any(map(pods.is_running, speakers)):
        if not kind.suspend:  # a Deployment, whose pods go when it is put back
            return
        yield from _patch_job(cluster, kind, job_id, {"spec": kind.suspend})
        return
    directory = state.get_annotation(job, "reports")
    yield from _stop_pods(cluster, kind, job_id, script, directory)


def end_pods(cluster: KubernetesCluster, kind: Kind, job_id: str, script: str) -> Steps[None]:
    """Run the shell text in the pods of a job that has ended, if they run on."""
    job = yield from state.get_own_job(cluster, kind, job_id)
    if {kind.success_condition, kind.failure_condition} & set(state.list_conditions(job)):
        directory = state.get_annotation(job, "reports")
        yield from _stop_pods(cluster, kind, job_id, script, directory)


def _stop_pods(
    cluster: KubernetesCluster, kind: Kind, job_id: str, script: str, directory: str
) -> Steps[None]:
    """Run the script in every running pod, and for 30 s in pods that start meanwhile.

    Each pod starts its own ranks, so each has to be stopped.
    """
    stopped_pods = set[str]()
    for _ in range(_COMING_S):
        job_pods = yield from state.get_pods(cluster, kind.workers, job_id)
        running = [
            pod
            for pod in job_pods
            if pods.is_running(pod) and pods.get_name(pod) not in stopped_pods
        ]
        yield from _run_in_pods(cluster, running, job_id, script, directory)
        stopped_pods |= set(map(pods.get_name, running))
        if not any(pods.get_phase(pod) == "Pending" for pod in job_pods):
            return
        yield cluster.pause(1)


def _run_in_pods(
    cluster: KubernetesCluster, running: list[Object], job_id: str, script: str, directory: str
) -> Steps[None]:
    results = []
    for pod in running:
        results.append((yield run_shell_in_pod(cluster, pod, script, directory)))
    # After the loop: one pod that does not answer must not leave the others running.
    for result in results:
        check_kubectl_result(result, f"{job_id} goes on, not every pod of it could be told to stop")


def _patch_job(
    cluster: KubernetesCluster, kind: Kind, job_id: str, change: Mapping[str, object]
) -> Steps[None]:
    namespace, name = split_id(job_id)
    patch = cluster.kubectl(
        *("patch", kind.resource, name, "--type=merge", f"--patch={json.dumps(change)}"),
        namespace=namespace,
    )
    check_kubectl_result((yield patch), f"stopping {job_id}")
