"""Read reports from a PersistentVolumeClaim, in a pod of the job or one made for it."""

from collections.abc import Sequence
from pathlib import Path

from gpu_profile.command import Steps
from gpu_profile.errors import GpuProfileError, ReportError
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    Object,
    check_kubectl_result,
    parse_object,
    split_id,
)
from gpu_profile.kubernetes.marks import PREFIX
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.reports import copy_reports
from gpu_profile.signals import HungUp

_WAIT_S = 300  # for the reader's pod: its node may have to pull the job's image first
_READER_NEEDS = ("DAC_OVERRIDE",)
"""What a root reader needs for files of another user: the job ran as KUBE_RUN_AS_USER."""


def make_reader_manifest(
    pod_id: str, image: str, options: PodOptions, claim: str, path: str
) -> Manifest:
    """Return the pod `namespace/name`, which mounts the claim at `path` and sleeps."""
    namespace, name = split_id(pod_id)
    container: Manifest = {
        "name": "reader",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        # An hour for the copy: a reader that nobody could remove ends by itself.
        "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "reports", "mountPath": path}],
    }
    spec: Manifest = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "reports", "persistentVolumeClaim": {"claimName": claim}}],
    }
    manifests.place_pod(spec, options)
    container["securityContext"] = manifests.container_security(options, needs=_READER_NEEDS)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def collect_from_claim(
    cluster: KubernetesCluster,
    options: PodOptions,
    job_id: str,
    job: Object,
    job_pods: Sequence[Object],
    to: Path,
    *,
    lasting: bool,
) -> Steps[None]:
    """Copy the run's directory from its claim. Raises ReportError if a report is missing."""
    notes = job["metadata"]["annotations"]
    claim, directory = (str(notes[f"{PREFIX}/{key}"]) for key in ("claim", "reports"))
    # `lasting` is False for pods that end by themselves, perhaps during the copy: do not use
    # those.
    pod = next((pod for pod in job_pods if lasting and pods.is_running(pod)), None)
    if pod is None:
        namespace, name = split_id(job_id)
        image = str(job_pods[0]["spec"]["containers"][0]["image"] if job_pods else options.image)
        pod_id = f"{namespace}/{pods.draw_name(f'{name}-reader')}"
        reader = make_reader_manifest(pod_id, image, options, claim, directory.rpartition("/")[0])
        problem = yield from _copy_by_reader(cluster, reader, directory, to)
    else:
        problem = yield from copy_reports.copy_reports(cluster, pod, directory, to)
    if problem:
        raise ReportError(
            f"not every report could be fetched: {problem}", f"The claim {claim} has them"
        )


def _copy_by_reader(
    cluster: KubernetesCluster, reader: Manifest, directory: str, to: Path
) -> Steps[str]:
    """Copy the directory in a pod made for that, and remove the pod. Returns what went wrong."""
    namespace = str(reader["metadata"]["namespace"])
    remove = cluster.kubectl(
        *("delete", "pod", pods.get_name(reader), "--wait=false", "--ignore-not-found"),
        namespace=namespace,
    )
    try:
        pod = yield from _start_reader(cluster, reader)
        problem = yield from copy_reports.copy_reports(cluster, pod, directory, to)
    # Not `finally`: a generator that is closed may not yield there.
    except (GpuProfileError, KeyboardInterrupt, HungUp):
        yield remove
        raise
    yield remove
    return problem


def _start_reader(cluster: KubernetesCluster, reader: Manifest) -> Steps[Object]:
    namespace, name = str(reader["metadata"]["namespace"]), pods.get_name(reader)
    claim = reader["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    check_kubectl_result((yield cluster.create(reader)), f"reading the claim {claim}")
    ready = cluster.kubectl(
        *("wait", f"pod/{name}", "--for=condition=Ready", f"--timeout={_WAIT_S}s"),
        namespace=namespace,
    )
    check_kubectl_result((yield ready), f"reading the claim {claim}")
    answer = yield cluster.get("pod", name, namespace=namespace)
    return parse_object(answer, "asking for the reader")
