"""Install Kubeflow's operators: pinned, by server-side apply, from a URL or a local path."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gpu_profile.command import Command, Steps
from gpu_profile.errors import SettingsError
from gpu_profile.kubernetes.kubectl import Cluster, Object, checked, parsed

_GITHUB = "https://github.com/kubeflow"
_MPIJOBS = "mpijobs.kubeflow.org"
_WAIT_S = 300


@dataclass(frozen=True, kw_only=True)
class Operator:
    """`source` is a manifest (kubectl -f) or a kustomization (kubectl -k: a folder, a ?ref=)."""

    name: str
    version: str
    source: str
    crd: str
    namespace: str
    deployment: str


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="mpi",
        version="v0.8.0",
        source=f"{_GITHUB}/mpi-operator/raw/v0.8.0/deploy/v2beta1/mpi-operator.yaml",
        crd=_MPIJOBS,
        namespace="mpi-operator",
        deployment="mpi-operator",
    ),
    Operator(
        name="training",
        version="v1.9.0",
        source=f"{_GITHUB}/training-operator.git/manifests/overlays/standalone?ref=v1.9.0",
        crd="pytorchjobs.kubeflow.org",
        namespace="kubeflow",
        deployment="training-operator",
    ),
    Operator(
        name="trainer",
        version="v2.2.0",
        source=f"{_GITHUB}/trainer.git/manifests/overlays/manager?ref=v2.2.0",
        crd="trainjobs.trainer.kubeflow.org",
        namespace="kubeflow-system",
        deployment="kubeflow-trainer-controller-manager",
    ),
)
_BY_NAME = {operator.name: operator for operator in OPERATORS}


def operator(name: str) -> Operator:
    found = _BY_NAME.get(name)
    if found is None:
        raise SettingsError(f"no operator {name!r}", f"Use one of {', '.join(_BY_NAME)}")
    return found


def install(
    cluster: Cluster, wanted: Operator, source: str = "", *, replace_v1: bool = False
) -> Steps[str]:
    """Apply, and wait until it serves. Doing it twice changes nothing.

    The MPI operator and the training operator bring an MPIJob of the same name, v2beta1 and v1.
    Only one can be: v2beta1 stays; v1 goes when `replace_v1` says so and no job uses it.
    """
    versions = yield from _mpijob_versions(cluster)
    if wanted.crd == _MPIJOBS and versions and "v2beta1" not in versions:
        yield from _retire_v1(cluster, replace=replace_v1)
    text = yield from _manifests(cluster, source or wanted.source)
    if wanted.name == "training" and "v2beta1" in versions:
        text = _dump(_without_mpijob(list(yaml.safe_load_all(text))))
    checked((yield _apply(cluster, text)), f"installing the {wanted.name} operator")
    for wait in _waits(cluster, wanted):
        yield from _waited(cluster, wait, wanted)
    return f"the {wanted.name} operator serves {wanted.crd}"


def _waited(cluster: Cluster, wait: Command, wanted: Operator) -> Steps[None]:
    """`kubectl wait` fails on a CRD that is too new to have conditions."""
    result = yield wait
    for _ in range(10):
        if "accessor error" not in result.stderr:
            break
        yield cluster.pause(1)
        result = yield wait
    checked(result, f"waiting for the {wanted.name} operator")


def is_kustomization(source: str) -> bool:
    return "?ref=" in source or not source.endswith((".yaml", ".yml", ".json"))


def _manifests(cluster: Cluster, source: str) -> Steps[str]:
    """The manifests as text, read and not created: what is applied can be looked at first."""
    if is_kustomization(source):
        read = cluster.kubectl("kustomize", source)
    else:
        words = (
            "--local",
            "--output=yaml",
            f"--filename={source}",
            "gpu-profile.io/by=gpu-profile",
        )
        read = cluster.kubectl("annotate", *words)
    return checked((yield read), f"reading {source}").stdout


def _apply(cluster: Cluster, text: str) -> Command:
    return cluster.kubectl(
        *("apply", "--server-side", "--field-manager=gpu-profile", "--force-conflicts"),
        "--filename=-",
        stdin=text,
    )


def _waits(cluster: Cluster, wanted: Operator) -> tuple[Command, ...]:
    timeout = f"--timeout={_WAIT_S}s"
    return (
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{wanted.crd}", timeout),
        cluster.kubectl(
            "rollout", "status", f"deployment/{wanted.deployment}", timeout,
            namespace=wanted.namespace,
        ),
    )  # fmt: skip


def _mpijob_versions(cluster: Cluster) -> Steps[tuple[str, ...]]:
    """The versions of MPIJob that the cluster stores; none where it has no such CRD."""
    words = ("--ignore-not-found", "--output=json", "--request-timeout=30s")
    answer = yield cluster.kubectl("get", "crd", _MPIJOBS, *words)
    return tuple(
        parsed(answer, "asking for MPIJob's CRD").get("status", {}).get("storedVersions", ())
    )


def _retire_v1(cluster: Cluster, *, replace: bool) -> Steps[None]:
    """Take the training operator's MPIJob v1 away, and it from the kinds that it serves."""
    answer = yield cluster.get(_MPIJOBS, "--all-namespaces")
    jobs = parsed(answer, "asking for MPIJobs").get("items", ())
    if jobs or not replace:
        there = f"{len(jobs)} MPIJobs use it" if jobs else "no MPIJob uses it"
        hint = "Delete them" if jobs else "--replace-mpijob-v1 takes it from the training operator"
        raise SettingsError(f"this cluster has the training operator's MPIJob v1; {there}", hint)
    found = yield cluster.kubectl(
        "get", "deployments", "--all-namespaces", "--output=json", "--request-timeout=30s"
    )
    for deployment in _training_operators(parsed(found, "asking for the training operator")):
        checked((yield _restrict(cluster, deployment)), "restricting the training operator")
    checked((yield cluster.kubectl("delete", "crd", _MPIJOBS)), "deleting MPIJob v1")


def _training_operators(listed: Object) -> Iterator[Object]:
    for item in listed.get("items", ()):
        image = item["spec"]["template"]["spec"]["containers"][0]["image"]
        if "training-operator" in image:
            yield item


_SCHEMES = ("tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob")


def _restrict(cluster: Cluster, deployment: Object) -> Command:
    """The training operator, asked for a kind that is gone, would restart for ever."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    kept = [arg for arg in container.get("args", ()) if not arg.startswith("--enable-scheme")]
    args = [*kept, *(f"--enable-scheme={kind}" for kind in _SCHEMES)]
    path = "/spec/template/spec/containers/0/args"
    patch = json.dumps([{"op": "add", "path": path, "value": args}])
    return cluster.kubectl(
        *("patch", "deployment", deployment["metadata"]["name"], "--type=json", f"--patch={patch}"),
        namespace=deployment["metadata"]["namespace"],
    )


def _without_mpijob(documents: Sequence[Any]) -> list[Any]:
    """The training operator's manifests beside an MPI operator: without MPIJob v1."""
    kept = [doc for doc in documents if doc and doc["metadata"]["name"] != _MPIJOBS]
    for deployment in (doc for doc in kept if doc["kind"] == "Deployment"):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["args"] = [f"--enable-scheme={kind}" for kind in _SCHEMES]
    return kept


def _dump(documents: Sequence[Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False)
