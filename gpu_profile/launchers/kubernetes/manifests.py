"""Load the manifests of k8s/, and the edits that all kinds of jobs share. Nothing is run."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from gpu_profile.errors import SettingsError
from gpu_profile.job import REPORTS_INSIDE, Job
from gpu_profile.kubernetes.marks import MANAGED_BY, MANAGER, PREFIX
from gpu_profile.kubernetes.yaml_text import load_yaml
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.settings.places import ROOT

Manifest: TypeAlias = dict[str, Any]

DIRECTORY = ROOT / "k8s"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
SSHD_NEEDS = ("SETGID", "SETUID", "SYS_CHROOT")
"""The capabilities of a root sshd: it locks its network half into a chroot of another user."""


def load_manifest(name: str) -> Manifest:
    """Return a manifest of k8s/ as data.

    YAML anchors refer to one object: each reference becomes a copy, so that an edit changes one
    place.
    """
    document: Manifest = load_yaml((DIRECTORY / name).read_text(encoding="utf-8"))
    apart: Manifest = _copy_node(document)
    return apart


def _copy_node(node: Any) -> Any:  # noqa: ANN401 - any YAML
    if isinstance(node, dict):
        return {key: _copy_node(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_copy_node(value) for value in node]
    return copy.copy(node)


def describe_job(
    manifest: Manifest, job: Job, options: PodOptions, labels: Mapping[str, str]
) -> None:
    """Set the job's name, labels and annotations. status and fetch read these on any machine."""
    manifest["metadata"] = {
        "name": job.name,
        "labels": {
            MANAGED_BY: MANAGER,
            **({QUEUE_LABEL: options.queue} if options.queue else {}),
            **labels,
        },
        "annotations": {
            f"{PREFIX}/reports": options.directory(job.name),
            f"{PREFIX}/claim": "",
            f"{PREFIX}/wait-seconds": str(options.wait_s),
            **{f"{PREFIX}/{key}": note for key, note in options.place.make_notes(job.name).items()},
        },
    }


def refuse_mounts(job: Job) -> None:
    """Raise SettingsError for --mount: a pod sees its node's directories, not this machine's."""
    if job.mounts:
        raise SettingsError(
            f"{job.mounts[0].source} is on this machine, which pods cannot mount",
            "Put it into the image, or onto a volume: KUBE_REPORT_TO",
        )


def set_env(container: Manifest, values: Mapping[str, str]) -> None:
    """Set variables of a container. Existing ones of the same name are replaced."""
    _merge_env(container, [{"name": name, "value": value} for name, value in values.items()])


def _merge_env(container: Manifest, entries: Iterable[Manifest]) -> None:
    merged = {entry["name"]: entry for entry in (*container.get("env", ()), *entries)}
    container["env"] = list(merged.values())


def name_secret(job_name: str) -> str:
    """Return the name of the Secret with the job's variables, such as `train-1-env`."""
    return f"{job_name}-env"


def refer_to_secret(container: Manifest, job: Job) -> None:
    """Set the job's variables of a container by reference to the job's Secret.

    Whoever may get the job or its pods would read them in these objects otherwise.
    """
    secret = name_secret(job.name)
    references = {name: {"secretKeyRef": {"name": secret, "key": name}} for name in job.env}
    _merge_env(container, [{"name": name, "valueFrom": ref} for name, ref in references.items()])


def place_pod(spec: Manifest, options: PodOptions, *, is_patch: bool = False) -> None:
    """Set where a pod may run, its priority and its rights.

    `is_patch`: the spec patches a TrainJob's runtime, and has no automountServiceAccountToken
    there; k8s/trainjob.yaml mounts an empty directory in the token's place.
    """
    if options.node_selector:
        spec["nodeSelector"] = dict(options.node_selector)
    spec["tolerations"] = [*spec.get("tolerations", ()), *map(dict, options.tolerations)]
    if options.affinity:
        spec["affinity"] = {**spec.get("affinity", {}), **options.affinity}
    if options.priority_class:
        spec["priorityClassName"] = options.priority_class
    if options.service_account:
        spec["serviceAccountName"] = options.service_account
    if not is_patch:
        spec["automountServiceAccountToken"] = False
    spec["securityContext"] = pod_security(options)


def pod_security(options: PodOptions) -> Manifest:
    """Return the securityContext of a pod.

    With a user that is not root: what the PodSecurity level `restricted` demands. Without one the
    image's own user stays, which is root for most images.
    """
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}}
    user = options.run_as_user
    if not user:
        return {"runAsUser": 0, **seccomp} if options.place.takes_root else seccomp
    ids = {"runAsUser": user, "runAsGroup": user, "fsGroup": user, "runAsNonRoot": True}
    return {**ids, **seccomp}


def container_security(
    options: PodOptions, *, privileged: bool = False, needs: Sequence[str] = ()
) -> Manifest:
    """Return the securityContext of a container: no capability but those it needs.

    `needs` are the capabilities that it needs as root, such as sshd's SETUID. `privileged` adds
    SYS_ADMIN for nsys' CPU sampling, beside which Kubernetes refuses
    allowPrivilegeEscalation=false (kubernetes.io/docs, "Configure a Security Context").
    """
    added = [] if options.run_as_user else list(needs)
    if privileged:
        added.append("SYS_ADMIN")
    capabilities = {"drop": ["ALL"]}
    if added:
        capabilities["add"] = added
    escalation = {} if privileged else {"allowPrivilegeEscalation": False}
    return {**escalation, "capabilities": capabilities}


def edit_container(
    container: Manifest,
    options: PodOptions,
    job: Job,
    *,
    privileged: bool = False,
    needs: Sequence[str] = (),
) -> None:
    container["image"] = str(job.image or options.image)
    container["securityContext"] = container_security(options, privileged=privileged, needs=needs)


def edit_worker(container: Manifest, options: PodOptions, job: Job) -> None:
    """Set the resources and the mount for reports of a container that runs ranks."""
    resources = options.resources(job)
    container.pop("resources", None)
    if resources:
        container["resources"] = resources
    edit_mounts(container, options, job)


def edit_mounts(container: Manifest, options: PodOptions, job: Job) -> None:
    """Set where the reports' volume is mounted."""
    for mount in container["volumeMounts"]:
        if mount["name"] == "reports":
            mount["mountPath"] = options.place.choose_mount(
                options.folder(job.name), REPORTS_INSIDE
            )
            # an injector writes all runs' reports to one directory
            if options.injector and options.place.claim:
                mount["subPath"] = job.name


def add_injection_label(template: Manifest, options: PodOptions) -> None:
    """Set the label that asks NVIDIA's injector to add nsys to the pods."""
    if options.injector:
        key, value = options.injector.label
        template.setdefault("metadata", {}).setdefault("labels", {})[key] = value


def edit_volumes(spec: Manifest, options: PodOptions, run: str) -> None:
    """Set the reports' volume, and the size of /dev/shm."""
    for volume in spec["volumes"]:
        if volume["name"] == "reports":
            del volume["emptyDir"]
            volume.update(options.place.make_source(run, options.disk_gib))
        if volume["name"] == "shm":
            volume["emptyDir"]["sizeLimit"] = f"{options.choose_shm_gib()}Gi"


def spread_pods(spec: Manifest, label: str, name: str) -> None:
    """Let the template's topologySpreadConstraints count this job's pods."""
    for constraint in spec["topologySpreadConstraints"]:
        constraint["labelSelector"]["matchLabels"] = {label: name}


def list_exported(env: Iterable[str]) -> str:
    """Return the names of the job's variables, which mpirun passes to the ranks.

    The launcher's script passes a fixed list of variables otherwise.
    """
    return " ".join(sorted(env))
