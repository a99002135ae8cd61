"""Ask a cluster for a job, its pods and its events; Kind says how to read those of one kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpu_profile.command import Result, Steps
from gpu_profile.errors import SettingsError
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    Object,
    parse_object,
    split_id,
)
from gpu_profile.kubernetes.marks import MANAGED_BY, MANAGER, PREFIX, is_ours

_TRIES = 12  # 12 * 5 s: a minute
_PAUSE_S = 5
_AWAY = ("refused", "timeout", "Unable to connect", "EOF", "TLS handshake", "no route to host")
STOPPED = f"{PREFIX}/stopped"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The names of one kind of job, and how its conditions and pods are to be read.

    `operator` is what `k8s.install-operator --operator` calls the operator of this kind. `label`
    has the job's name on each pod. `workers` selects the pods that hold reports, `speakers` those
    whose output in `container`, by default the pod's first, is the job's; `worker_role` and
    `speaker_role` narrow the label's selector, as in `,training.kubeflow.org/job-role=worker`. The
    job's exit code is that of the pod with `leader` in its name. `suspend` is the patch that makes
    the job release its pods. `holds`: pods wait after the run for the fetch. `root_needs` are the
    capabilities that workers have as root. `rights_note` is what else `doctor` says of the pods'
    rights. `list_gone` returns the names of a failed job's pods that were deleted while it ran.
    `is_outlived`: pods run on after the job's end, and the fetch ends what they record.
    """

    resource: str
    operator: str
    label: str
    leader: str
    suspend: Mapping[str, object]
    container: str = ""
    success_condition: str = "Succeeded"
    failure_condition: str = "Failed"
    suspension_condition: str = "Suspended"
    holds: bool = False
    is_outlived: bool = False
    root_needs: tuple[str, ...] = ()
    rights_note: str = ""
    worker_role: str = ""
    speaker_role: str = ""
    list_gone: Callable[[Object, Sequence[Object]], Sequence[str]] = lambda _job, _pods: ()

    @property
    def selector(self) -> str:
        """The selector of all pods, for `str.format(name=…)`: `jobset-name={name}`."""
        return f"{self.label}={{name}}"

    def choose_container(self) -> tuple[str, ...]:
        """Return the flag of `kubectl logs` for the container; without one kubectl chooses."""
        return (f"--container={self.container}",) if self.container else ()

    @property
    def workers(self) -> str:
        return self.selector + self.worker_role

    @property
    def speakers(self) -> str:
        return self.selector + self.speaker_role


def get_patiently(
    cluster: KubernetesCluster, resource: str, *words: str, namespace: str
) -> Steps[Result]:
    """Return the result of a `kubectl get`, tried for a minute while the cluster is unreachable."""
    result = yield cluster.get(resource, *words, namespace=namespace)
    for _ in range(_TRIES):
        if not result.returncode or not any(word in result.stderr for word in _AWAY):
            break
        yield cluster.pause(_PAUSE_S)
        result = yield cluster.get(resource, *words, namespace=namespace)
    return result


def get_job(cluster: KubernetesCluster, kind: Kind, job_id: str) -> Steps[Object]:
    """Ask for the job's object, for a minute while the cluster is away. Raises its refusal."""
    namespace, name = split_id(job_id)
    result = yield from get_patiently(cluster, kind.resource, name, namespace=namespace)
    return parse_object(result, f"asking for {job_id}")


def get_own_job(cluster: KubernetesCluster, kind: Kind, job_id: str) -> Steps[Object]:
    """Return the job. Raises SettingsError unless it has our label."""
    job = yield from get_job(cluster, kind, job_id)
    if not is_ours(job):
        raise SettingsError(
            f"{job_id} was not started by gpu-profile: it has no label {MANAGED_BY}={MANAGER}",
            "`kubectl` reads and ends it",
        )
    return job


def get_pods(cluster: KubernetesCluster, selector: str, job_id: str) -> Steps[tuple[Object, ...]]:
    """Return the job's pods, sorted by name."""
    namespace, name = split_id(job_id)
    words = f"--selector={selector.format(name=name)}"
    result = yield from get_patiently(cluster, "pods", words, namespace=namespace)
    items = parse_object(result, f"asking for the pods of {job_id}").get("items", ())
    return tuple(sorted(items, key=pods.get_name))


def get_warnings(cluster: KubernetesCluster, job_id: str) -> Steps[tuple[str, ...]]:
    """Return what the cluster's events warn of on this job; nothing where they may not be read."""
    namespace, name = split_id(job_id)
    result = yield cluster.get("events", namespace=namespace)
    if result.returncode:  # a role may not allow events: go on without them
        return ()
    return pods.list_warnings(parse_object(result, "reading events").get("items", ()), name)


def list_conditions(job: Object) -> Mapping[str, Object]:
    """Return the conditions with status True, by type. A RayJob has one word in their place."""
    status = job.get("status", {})
    word, message = status.get("jobDeploymentStatus"), status.get("message", "")
    phase = {word: {"type": word, "message": message}} if word else {}
    rows = status.get("conditions", ())
    return {**phase, **{c["type"]: c for c in rows if c.get("status") == "True"}}


def has_run(job: Object) -> bool:
    """Return whether the operator's conditions say that the pods ran at some time."""
    types = {c["type"] for c in job.get("status", {}).get("conditions", ())}
    types |= set(list_conditions(job))
    return bool(types & {"Running", "Succeeded", "Complete", "Failed"})


def get_annotation(job: Object, key: str) -> str:
    return str(job.get("metadata", {}).get("annotations", {}).get(f"{PREFIX}/{key}", ""))
