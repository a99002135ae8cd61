"""Install Kubeflow's operators by server-side apply, from a URL or a path.

Their manifests are pinned: a file by its SHA-256, a kustomization by its commit, whose objects git
itself checks.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_profile.command import Command, Steps
from gpu_profile.errors import SettingsError, find_row
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    Object,
    check_kubectl_result,
    parse_object,
)
from gpu_profile.kubernetes.pinned_file import use_pinned
from gpu_profile.kubernetes.yaml_text import dump_all_yaml, load_all_yaml

_GITHUB = "https://github.com/kubeflow"
_MPIJOBS = "mpijobs.kubeflow.org"
_WAIT_S = 300  # for a CRD and for a deployment, whose image is pulled first


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator.

    `source` is a manifest (kubectl -f) or a kustomization (-k: a folder, a ?ref=) of `version`.
    `sha256` is that of a manifest.
    """

    name: str
    version: str
    source: str
    crd: str
    namespace: str
    deployment: str
    sha256: str = ""


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="mpi",
        version="v0.8.0",
        source=f"{_GITHUB}/mpi-operator/raw/101db144e019e1de65aaded07745e9d805c2852a"
        "/deploy/v2beta1/mpi-operator.yaml",
        sha256="b38def13a94abe60b2a4b3485239d77f64892b8fbd202e9e435a6031b7500a8f",
        crd=_MPIJOBS,
        namespace="mpi-operator",
        deployment="mpi-operator",
    ),
    Operator(
        name="training",
        version="v1.9.0",
        source=f"{_GITHUB}/training-operator.git/manifests/overlays/standalone"
        "?ref=6f74c7f6b2ed6c27aabd82d0a316b23f0646059c",
        crd="pytorchjobs.kubeflow.org",
        namespace="kubeflow",
        deployment="training-operator",
    ),
    Operator(
        name="trainer",
        version="v2.2.0",
        source=f"{_GITHUB}/trainer.git/manifests/overlays/manager"
        "?ref=dc7656ad878916f526cd401f30a347574cd47877",
        crd="trainjobs.trainer.kubeflow.org",
        namespace="kubeflow-system",
        deployment="kubeflow-trainer-controller-manager",
    ),
)
"""Each commit is that of the version's tag, as the Go checksum database has it (sum.golang.org)."""
_BY_NAME = {operator.name: operator for operator in OPERATORS}


def find_operator(name: str) -> Operator:
    return find_row(_BY_NAME, name, "operator")


def install_operator(
    cluster: KubernetesCluster,
    new_operator: Operator,
    source: str = "",
    *,
    replace_v1: bool = False,
) -> Steps[str]:
    """Apply the operator and wait until it is ready. A second time changes nothing.

    The MPI operator and the training operator both bring an MPIJob, v2beta1 and v1, and a cluster
    can hold one. v2beta1 stays; v1 is removed only with `replace_v1` and if no job uses it.
    """
    versions = yield from _mpijob_versions(cluster)
    if new_operator.crd == _MPIJOBS and versions and "v2beta1" not in versions:
        yield from _retire_v1(cluster, replace=replace_v1)
    text = yield from _fetch_operator(cluster, new_operator, source)
    if new_operator.name == "training" and "v2beta1" in versions:
        documents = _without_mpijob(load_all_yaml(text))
        text = dump_all_yaml(documents)
    check_kubectl_result(
        (yield _apply_manifests(cluster, text)), f"installing the {new_operator.name} operator"
    )
    for wait in _list_waits(cluster, new_operator):
        yield from _wait_for_condition(cluster, wait, new_operator)
    return f"the {new_operator.name} operator serves {new_operator.crd}"


def _wait_for_condition(
    cluster: KubernetesCluster, wait: Command, new_operator: Operator
) -> Steps[None]:
    """Run a `kubectl wait`, up to 10 times more if the CRD has no conditions yet.

    kubectl then fails at once, with an accessor error, in place of waiting:
    https://github.com/stackrox/stackrox/pull/22739
    """
    result = yield wait
    for _ in range(10):
        if "accessor error" not in result.stderr:
            break
        yield cluster.pause(1)
        result = yield wait
    check_kubectl_result(result, f"waiting for the {new_operator.name} operator")


def is_kustomization(source: str) -> bool:
    return "?ref=" in source or not source.endswith((".yaml", ".yml", ".json"))


def _fetch_operator(cluster: KubernetesCluster, new_operator: Operator, source: str) -> Steps[str]:
    """Return the manifests of `source`, or of the operator's own source after a check."""
    if source or not new_operator.sha256:
        return (yield from _fetch_manifests(cluster, source or new_operator.source))
    return (
        yield from use_pinned(
            new_operator.source,
            new_operator.sha256,
            lambda file: _fetch_manifests(cluster, file),
        )
    )


def _fetch_manifests(cluster: KubernetesCluster, source: str) -> Steps[str]:
    """Return the manifests as text without applying them, so that they can be checked first."""
    if is_kustomization(source):
        read = cluster.kubectl("kustomize", source)
    else:
        words = (
            "--local",
            "--output=yaml",
            f"--filename={source}",
            "gpu-profile.io/by=gpu-profile",
        )
        # `annotate --local` asks no cluster: it prints what a file or URL holds, with one more
        # annotation.
        read = cluster.kubectl("annotate", *words)
    return check_kubectl_result((yield read), f"reading {source}").stdout


def _apply_manifests(cluster: KubernetesCluster, text: str) -> Command:
    return cluster.kubectl(
        # An operator that `kubectl apply` installed before owns the same fields.
        *("apply", "--server-side", "--field-manager=gpu-profile", "--force-conflicts"),
        "--filename=-",
        stdin=text,
    )


def _list_waits(cluster: KubernetesCluster, new_operator: Operator) -> tuple[Command, ...]:
    timeout = f"--timeout={_WAIT_S}s"
    crd, deployment = f"crd/{new_operator.crd}", f"deployment/{new_operator.deployment}"
    namespace = new_operator.namespace
    return (
        cluster.kubectl("wait", "--for=condition=Established", crd, timeout),
        cluster.kubectl("rollout", "status", deployment, timeout, namespace=namespace),
    )


def _mpijob_versions(cluster: KubernetesCluster) -> Steps[tuple[str, ...]]:
    """Return the versions of MPIJob that the cluster stores; empty without such a CRD."""
    words = ("--ignore-not-found", "--output=json", "--request-timeout=30s")
    answer = yield cluster.kubectl("get", "crd", _MPIJOBS, *words)
    return tuple(
        parse_object(answer, "asking for MPIJob's CRD").get("status", {}).get("storedVersions", ())
    )


def _retire_v1(cluster: KubernetesCluster, *, replace: bool) -> Steps[None]:
    """Remove MPIJob v1 of the training operator, and MPIJob from the kinds that it watches."""
    answer = yield cluster.get(_MPIJOBS, "--all-namespaces")
    jobs = parse_object(answer, "asking for MPIJobs").get("items", ())
    if jobs or not replace:
        users = f"{len(jobs)} MPIJobs use it" if jobs else "no MPIJob uses it"
        hint = "Delete them" if jobs else "--replace-mpijob-v1 takes it from the training operator"
        raise SettingsError(f"this cluster has the training operator's MPIJob v1; {users}", hint)
    deployments = yield cluster.kubectl(
        "get", "deployments", "--all-namespaces", "--output=json", "--request-timeout=30s"
    )
    for deployment in _find_training_operators(
        parse_object(deployments, "asking for the training operator")
    ):
        check_kubectl_result(
            (yield _restrict_operator(cluster, deployment)), "restricting the training operator"
        )
    check_kubectl_result((yield cluster.kubectl("delete", "crd", _MPIJOBS)), "deleting MPIJob v1")


def _find_training_operators(listed: Object) -> Iterator[Object]:
    for item in listed.get("items", ()):
        image = item["spec"]["template"]["spec"]["containers"][0]["image"]
        if "training-operator" in image:
            yield item


_SCHEMES = ("tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob")


def _restrict_operator(cluster: KubernetesCluster, deployment: Object) -> Command:
    """Restart the training operator without MPIJob: it would crash in a loop without its CRD."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = [arg for arg in container.get("args", ()) if not arg.startswith("--enable-scheme")]
    args = [*arguments, *(f"--enable-scheme={kind}" for kind in _SCHEMES)]
    path = "/spec/template/spec/containers/0/args"
    patch = json.dumps([{"op": "add", "path": path, "value": args}])
    return cluster.kubectl(
        *("patch", "deployment", deployment["metadata"]["name"], "--type=json", f"--patch={patch}"),
        namespace=deployment["metadata"]["namespace"],
    )


def _without_mpijob(documents: Sequence[Any]) -> list[Any]:
    """Return the training operator's manifests without MPIJob v1, to run beside an MPI operator."""
    remaining = [doc for doc in documents if doc and doc["metadata"]["name"] != _MPIJOBS]
    for deployment in (doc for doc in remaining if doc["kind"] == "Deployment"):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["args"] = [f"--enable-scheme={kind}" for kind in _SCHEMES]
    return remaining
