"""Run programs in pods by `kubectl exec`."""

import functools
from collections.abc import Callable, Mapping, Sequence

from gpu_profile.command import Command, Result, Steps
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import KubernetesCluster, Object
from gpu_profile.kubernetes.marks import DEFAULT_CONTAINER

TRIES = 4  # of a `kubectl exec` that lost its connection; the pod still has the reports then
_PAUSE_S = 1
NO_RUN = 96
"""Exit code of a script if this pod has no directory of the run."""


def get_container_name(pod: Object) -> str:
    """Return the container that the pod's annotation names, or the first, as operators do."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(DEFAULT_CONTAINER) or pod["spec"]["containers"][0]["name"])


def execute_in_pod(cluster: KubernetesCluster, pod: Object, *argv: str, stdin: str = "") -> Command:
    """Return the `kubectl exec` of a program in the pod's first container."""
    options = ("--stdin",) if stdin else ()
    return cluster.kubectl(
        "exec",
        pods.get_name(pod),
        f"--container={get_container_name(pod)}",
        *options,
        "--",
        *argv,
        namespace=pod["metadata"]["namespace"],
        stdin=stdin,
    )


def call_in_pods(
    cluster: KubernetesCluster, job_pods: Sequence[Object], program: Sequence[str]
) -> Mapping[str, Callable[..., Command]]:
    """Return what calls a program in each pod that runs, with more words, by the pods' names."""
    return {
        pods.get_name(pod): functools.partial(execute_in_pod, cluster, pod, *program)
        for pod in job_pods
        if pods.is_running(pod)
    }


def run_shell_in_pod(cluster: KubernetesCluster, pod: Object, script: str, *words: str) -> Command:
    return execute_in_pod(cluster, pod, "sh", "-c", script, "gpu-profile", *words)


def ask_pod(cluster: KubernetesCluster, pod: Object, script: str, *words: str) -> Steps[Result]:
    """Run a script in a pod and return its result. A lost connection of kubectl is tried again."""
    for tries_left in reversed(range(TRIES)):
        result = yield run_shell_in_pod(cluster, pod, script, *words)
        if result.returncode in (0, NO_RUN) or "orbidden" in result.stderr or not tries_left:
            break
        yield cluster.pause(_PAUSE_S)
    return result
