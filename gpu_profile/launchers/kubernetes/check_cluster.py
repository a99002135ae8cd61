"""`doctor --on mpijob`: checks of a cluster and of pods' rights, each with what to do about it."""

import json
from collections.abc import Mapping, Sequence

from gpu_profile.command import Result, Steps
from gpu_profile.declared.check import Check
from gpu_profile.kubernetes.kubectl import KubernetesCluster, Object, make_kubectl_error
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.state import Kind

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
_HIDES = "`fetch` and `logs` of a detached job hide the values of --env with it"
_JOB_VERBS = ("create", "get", "patch", "delete")
_ROOT = "the image's own, root for most images"
_SAMPLING = "SYS_ADMIN and root are added for --preset full and CPU sampling only"


def check_cluster(cluster: KubernetesCluster, kind: Kind) -> Steps[tuple[Check, ...]]:
    """Return the checks of a cluster.

    If it does not answer, that is the first check. Never raises.
    """
    # kubectl's own default is to wait without an end.
    server = yield cluster.kubectl("version", "--output=json", "--request-timeout=20s")
    context = yield cluster.kubectl("config", "current-context")
    name = cluster.context or context.stdout.strip() or "none"
    if server.returncode:
        error = make_kubectl_error(server, f"context {name}")
        fault, advice = error.what, error.hint
        return (Check(name="cluster", ok=False, result=fault, advice=advice, is_required=True),)
    version = _parse_json(server).get("serverVersion", {}).get("gitVersion", "?")
    results = [Check(name="cluster", ok=True, result=f"{version} at context {name}")]
    results += yield from _check_operator(cluster, kind)
    results += yield from _check_nodes(cluster)
    results += yield from _check_rights(cluster, kind)
    results += yield from _check_secrets(cluster)
    results += yield from _check_security(cluster)
    results += yield from _check_collectors(cluster)
    return tuple(results)


def _parse_json(result: Result) -> Object:
    if result.returncode or not result.stdout.strip():
        return {}
    document: Object = json.loads(result.stdout)
    return document


def _check_operator(cluster: KubernetesCluster, kind: Kind) -> Steps[list[Check]]:
    """Check the operator's CRD for the version that the launcher uses, and its images."""
    resource, version, group = kind.resource.split(".", 2)
    served = yield cluster.kubectl("get", "--raw", f"/apis/{group}/{version}")
    kinds = {item["name"] for item in _parse_json(served).get("resources", ())}
    is_served = resource in kinds
    advice = f"`invoke k8s.install-operator --operator {kind.operator}`"
    results = [
        Check(name=kind.resource, ok=is_served, result="served" if is_served else "", advice=advice)
    ]
    deployments = _parse_json((yield cluster.get("deployments", "--all-namespaces")))
    images = {
        container["image"]: bool(item.get("status", {}).get("availableReplicas"))
        for item in deployments.get("items", ())
        for container in item["spec"]["template"]["spec"]["containers"]
        if any(word in container["image"] for word in _OPERATORS)
    }
    if deployments:
        observation = ", ".join(
            f"{image}{'' if up else ' (not running)'}" for image, up in images.items()
        )
        ok = bool(images) and all(images.values())
        results.append(Check(name="operators", ok=ok, result=observation, advice=advice))
    return results


def _check_nodes(cluster: KubernetesCluster) -> Steps[list[Check]]:
    answer = yield cluster.get("nodes")
    if answer.returncode:
        advice = "Say --gpus-per-node or --instance: what nodes offer cannot be read"
        return [Check(name="nodes", ok=False, result="may not be listed", advice=advice)]
    nodes = [item["status"].get("allocatable", {}) for item in _parse_json(answer).get("items", ())]
    results = [Check(name="nodes", ok=bool(nodes), result=str(len(nodes)), advice="Add nodes")]
    for resource, word in _AMOUNTS.items():
        offered = [str(node[resource]) for node in nodes if str(node.get(resource, "0")) != "0"]
        observation = (
            f"{', '.join(sorted(set(offered)))} on {len(offered)} nodes" if offered else ""
        )
        results.append(
            Check(name=word, ok=bool(offered), result=observation, advice=_PLUGINS[word])
        )
    return results


def _check_rights(cluster: KubernetesCluster, kind: Kind) -> Steps[list[Check]]:
    """Check each verb separately.

    A role often lacks just one, which would fail in the middle of a run.
    """
    resource, _, group = kind.resource.split(".", 2)
    rights = [*((verb, f"{resource}.{group}") for verb in _JOB_VERBS), *_POD_VERBS]
    denied = []
    for verb, what in rights:
        name, _, part = what.partition("/")
        # `create pods/exec` would mean a pod named exec: --subresource is needed
        narrow = (f"--subresource={part}",) if part else ()
        if (yield cluster.kubectl("auth", "can-i", verb, name, *narrow)).returncode:
            denied.append(f"{verb} {what}")
    advice = f"Ask for a role that allows: {', '.join(denied)}"
    observation = f"{len(rights) - len(denied)} of {len(rights)} verbs"
    return [Check(name="rights", ok=not denied, result=observation, advice=advice)]


def _check_secrets(cluster: KubernetesCluster) -> Steps[list[Check]]:
    """Check the rights that only --env uses: one hands its values to the job, one hides them."""
    return [
        (yield from _check_secret_right(cluster, "create", "right for --env", "--env needs it")),
        (yield from _check_secret_right(cluster, "get", "right to hide --env", _HIDES)),
    ]


def _check_secret_right(
    cluster: KubernetesCluster, verb: str, name: str, reason: str
) -> Steps[Check]:
    denied = (yield cluster.kubectl("auth", "can-i", verb, "secrets")).returncode
    advice = f"{reason}, nothing else. Ask for a role that allows: {verb} secrets"
    return Check(
        name=name, ok=not denied, result="" if denied else f"{verb} secrets", advice=advice
    )


def _check_security(cluster: KubernetesCluster) -> Steps[list[Check]]:
    """Check PodSecurity's level: `baseline` refuses CPU sampling, `restricted` refuses root too."""
    namespace = cluster.namespace
    if not namespace:
        words = ("config", "view", "--minify", "--output=jsonpath={..namespace}")
        namespace = (yield cluster.kubectl(*words)).stdout.strip() or "default"
    answer = yield cluster.get("namespace", namespace)
    if answer.returncode:
        error = make_kubectl_error(answer, f"namespace {namespace}")
        missing = "(NotFound)" in answer.stderr
        return [Check(name="namespace", ok=not missing, result=error.what, advice=error.hint)]
    labels: Mapping[str, str] = _parse_json(answer).get("metadata", {}).get("labels", {})
    level = labels.get("pod-security.kubernetes.io/enforce", "privileged")
    advice = {
        "restricted": "Set KUBE_RUN_AS_USER to 1000; CPU sampling and GPU counters are refused",
        "baseline": "CPU sampling and GPU counters are refused; the rest works",
    }
    ok = level not in advice
    return [
        Check(
            name="PodSecurity",
            ok=ok,
            result=f"{level} in {namespace}",
            advice=advice.get(level, ""),
        )
    ]


def _check_collectors(cluster: KubernetesCluster) -> Steps[list[Check]]:
    """Check for DCGM: a GPU has one counter session, for DCGM's profiling metrics or for nsys."""
    sets = _parse_json((yield cluster.get("daemonsets", "--all-namespaces"))).get("items", ())
    names: Sequence[str] = [
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in sets
        if "dcgm" in item["metadata"]["name"]
    ]
    advice = "--gpu-metrics needs `dcgmi profile --pause` on the job's nodes meanwhile"
    observation = ", ".join(names) or "none"
    return [Check(name="DCGM", ok=not names, result=observation, advice=advice)]


def explain_rights(kind: Kind, options: PodOptions) -> tuple[Check, ...]:
    """Return a check for each right of the pods. `ok` is False for one that stays, with why."""
    return (
        _explain_user(options),
        _explain_capabilities(kind, options),
        Check(name="pods' seccomp", ok=True, result="RuntimeDefault"),
        Check(
            name="pods' API token",
            ok=True,
            result="not mounted",
        ),
    )


def _explain_user(options: PodOptions) -> Check:
    if options.run_as_user:
        return Check(name="pods' user", ok=True, result=f"{options.run_as_user}, not root")
    reason = "KUBE_RUN_AS_USER is 0"
    if options.own_user:
        reason = "INSTALL_MPI=false: the image has no account with the id 1000"
        if options.place.claim:
            reason = "A claim on NFS or FSx may be root's alone"
        if options.place.takes_root:
            reason = "A node's directory is root's alone"
    advice = f"{reason}. Set KUBE_RUN_AS_USER to a user who may write the reports"
    return Check(name="pods' user", ok=False, result=_ROOT, advice=advice)


def _explain_capabilities(kind: Kind, options: PodOptions) -> Check:
    name = "pods' capabilities"
    if kind.root_needs and not options.run_as_user:
        needs = ", ".join(kind.root_needs)
        advice = f"A root sshd needs them for its sandbox and its log-in. {_SAMPLING}"
        return Check(name=name, ok=False, result=f"{needs} in workers", advice=advice)
    note = f"; {kind.rights_note}" if kind.rights_note else ""
    return Check(name=name, ok=True, result=f"none; {_SAMPLING}{note}")
