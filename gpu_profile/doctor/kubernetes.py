"""`doctor --on mpijob`: what a cluster can do for a job, and what to do about the rest."""

import json
from collections.abc import Mapping, Sequence

from gpu_profile.check import Check
from gpu_profile.command import Result, Steps
from gpu_profile.job import LauncherName
from gpu_profile.kubernetes.kubectl import Cluster, Object, refusal
from gpu_profile.launchers.kubernetes.state import Kind

_INSTALL = {"mpijob": "mpi", "pytorchjob": "training", "trainjob": "trainer"}
_OPERATORS = ("mpi-operator", "training-operator", "trainer-controller-manager")
_AMOUNTS = {"nvidia.com/gpu": "GPUs", "vpc.amazonaws.com/efa": "EFA", "hugepages-2Mi": "hugepages"}
_PLUGINS = {
    "GPUs": "Install NVIDIA's device plugin; without GPUs jobs run on CPU with --gpus 0",
    "EFA": "Install AWS's EFA device plugin; without it NCCL uses TCP",
    "hugepages": "EFA needs them: set vm.nr_hugepages on the nodes",
}
_POD_VERBS = (
    ("get", "pods"),
    ("list", "pods"),
    ("create", "pods"),
    ("delete", "pods"),
    ("get", "pods/log"),
    ("create", "pods/exec"),
    ("list", "events"),
)
_JOB_VERBS = ("create", "get", "patch", "delete")


def checks(cluster: Cluster, launcher: LauncherName, kind: Kind) -> Steps[tuple[Check, ...]]:
    """One line each. Never raises: a cluster that does not answer is the first line."""
    server = yield cluster.kubectl("version", "--output=json", "--request-timeout=20s")
    context = yield cluster.kubectl("config", "current-context")
    name = cluster.context or context.stdout.strip() or "none"
    if server.returncode:
        error = refusal(server, f"context {name}")
        return (Check(name="cluster", ok=False, found=error.what, advice=error.hint),)
    version = _json(server).get("serverVersion", {}).get("gitVersion", "?")
    found = [Check(name="cluster", ok=True, found=f"{version} at context {name}")]
    found += yield from _operator(cluster, launcher, kind)
    found += yield from _nodes(cluster)
    found += yield from _rights(cluster, kind)
    found += yield from _security(cluster)
    found += yield from _collectors(cluster)
    return tuple(found)


def _json(result: Result) -> Object:
    if result.returncode or not result.stdout.strip():
        return {}
    found: Object = json.loads(result.stdout)
    return found


def _operator(cluster: Cluster, launcher: LauncherName, kind: Kind) -> Steps[list[Check]]:
    """The CRD with the version that the launcher speaks, and the operators' images."""
    resource, version, group = kind.resource.split(".", 2)
    served = yield cluster.kubectl("get", "--raw", f"/apis/{group}/{version}")
    kinds = {item["name"] for item in _json(served).get("resources", ())}
    there = resource in kinds
    advice = f"`invoke k8s.install-operator --operator {_INSTALL[launcher]}`"
    found = [Check(name=kind.resource, ok=there, found="served" if there else "", advice=advice)]
    deployments = _json((yield cluster.get("deployments", "--all-namespaces")))
    images = {
        container["image"]: bool(item.get("status", {}).get("availableReplicas"))
        for item in deployments.get("items", ())
        for container in item["spec"]["template"]["spec"]["containers"]
        if any(word in container["image"] for word in _OPERATORS)
    }
    if deployments:
        said = ", ".join(f"{image}{'' if up else ' (not running)'}" for image, up in images.items())
        ok = bool(images) and all(images.values())
        found.append(Check(name="operators", ok=ok, found=said, advice=advice))
    return found


def _nodes(cluster: Cluster) -> Steps[list[Check]]:
    answer = yield cluster.get("nodes")
    if answer.returncode:
        advice = "Say --gpus-per-node or --instance: what nodes offer cannot be read"
        return [Check(name="nodes", ok=False, found="may not be listed", advice=advice)]
    nodes = [item["status"].get("allocatable", {}) for item in _json(answer).get("items", ())]
    found = [Check(name="nodes", ok=bool(nodes), found=str(len(nodes)), advice="Add nodes")]
    for resource, word in _AMOUNTS.items():
        offered = [str(node[resource]) for node in nodes if str(node.get(resource, "0")) != "0"]
        said = f"{', '.join(sorted(set(offered)))} on {len(offered)} nodes" if offered else ""
        found.append(Check(name=word, ok=bool(offered), found=said, advice=_PLUGINS[word]))
    return found


def _rights(cluster: Cluster, kind: Kind) -> Steps[list[Check]]:
    """Each verb by itself: a role often lacks just one, and that in the middle of a run."""
    resource, _, group = kind.resource.split(".", 2)
    wanted = [*((verb, f"{resource}.{group}") for verb in _JOB_VERBS), *_POD_VERBS]
    denied = []
    for verb, what in wanted:
        name, _, part = what.partition("/")
        narrow = (f"--subresource={part}",) if part else ()  # pods/exec would be a pod named exec
        if (yield cluster.kubectl("auth", "can-i", verb, name, *narrow)).returncode:
            denied.append(f"{verb} {what}")
    advice = f"Ask for a role that allows: {', '.join(denied)}"
    said = f"{len(wanted) - len(denied)} of {len(wanted)} verbs"
    return [Check(name="rights", ok=not denied, found=said, advice=advice)]


def _security(cluster: Cluster) -> Steps[list[Check]]:
    """PodSecurity's level: baseline refuses CPU sampling, restricted refuses root too."""
    namespace = cluster.namespace
    if not namespace:
        words = ("config", "view", "--minify", "--output=jsonpath={..namespace}")
        namespace = (yield cluster.kubectl(*words)).stdout.strip() or "default"
    answer = yield cluster.get("namespace", namespace)
    if answer.returncode:
        error = refusal(answer, f"namespace {namespace}")
        missing = "(NotFound)" in answer.stderr
        return [Check(name="namespace", ok=not missing, found=error.what, advice=error.hint)]
    labels: Mapping[str, str] = _json(answer).get("metadata", {}).get("labels", {})
    level = labels.get("pod-security.kubernetes.io/enforce", "privileged")
    advice = {
        "restricted": "Set KUBE_RUN_AS_USER to 1000; CPU sampling and GPU counters are refused",
        "baseline": "CPU sampling and GPU counters are refused; the rest works",
    }
    ok = level not in advice
    return [
        Check(
            name="PodSecurity", ok=ok, found=f"{level} in {namespace}", advice=advice.get(level, "")
        )
    ]


def _collectors(cluster: Cluster) -> Steps[list[Check]]:
    """A GPU has one counter session: DCGM's profiling metrics and nsys' exclude each other."""
    sets = _json((yield cluster.get("daemonsets", "--all-namespaces"))).get("items", ())
    names: Sequence[str] = [
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in sets
        if "dcgm" in item["metadata"]["name"]
    ]
    advice = "--gpu-metrics needs `dcgmi profile --pause` on the job's nodes meanwhile"
    said = ", ".join(names) or "none"
    return [Check(name="DCGM", ok=not names, found=said, advice=advice)]
