"""kubectl's calls as Commands, and the meaning of its errors."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_profile.command import Command, Result
from gpu_profile.errors import (
    GpuProfileError,
    JobError,
    NameTakenError,
    Refusal,
    SettingsError,
    ToolError,
    explain_refusal,
)
from gpu_profile.kubernetes.yaml_text import dump_yaml

Object = Mapping[str, Any]
"""One API object, as `kubectl -o json` prints it."""

_SHOWN = "--output=jsonpath={.metadata.namespace}/{.metadata.name} {.metadata.uid}"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
_LABEL_LENGTH = 63

_ROLE = "Ask for a role that allows it; `invoke doctor --on mpijob` lists what is needed"
# The first that fits counts: messages on quotas and PodSecurity say `is forbidden` as well.
_REFUSALS = (
    Refusal(
        "must be created before the TrainJob",
        ToolError,
        "Apply Trainer's runtimes, torch-distributed",
    ),
    Refusal(
        "failed calling webhook", ToolError, "Its operator does not run: see `invoke doctor --on`"
    ),
    Refusal("error sending request", ToolError, "A node does not answer: see `kubectl get nodes`"),
    Refusal("error dialing backend", ToolError, "A node does not answer: see `kubectl get nodes`"),
    Refusal(
        "no PriorityClass", SettingsError, "Set KUBE_PRIORITY_CLASS to one that the cluster has"
    ),
    Refusal("looking up service account", SettingsError, "Create it, or set KUBE_SERVICE_ACCOUNT"),
    Refusal("exceeded quota", JobError, "Ask for fewer nodes or GPUs, or have the quota raised"),
    Refusal(
        "hostPath volumes",
        SettingsError,
        "Use --report-to pvc: or s3:, or a namespace whose PodSecurity allows them",
    ),
    Refusal(
        "violates PodSecurity", JobError, "Set KUBE_RUN_AS_USER, or use a namespace that allows it"
    ),
    Refusal("is forbidden: User", ToolError, _ROLE),
    Refusal("(Forbidden)", ToolError, _ROLE),
    Refusal("Unauthorized", ToolError, "Log in to the cluster again"),
    Refusal("You must be logged in", ToolError, "Log in to the cluster again"),
    Refusal("doesn't have a resource type", ToolError, "`invoke k8s.install-operator` installs it"),
    Refusal("find the requested resource", ToolError, "`invoke k8s.install-operator` installs it"),
    Refusal("no matches for kind", ToolError, "`invoke k8s.install-operator` installs it"),
    Refusal("AlreadyExists", NameTakenError, "Give the run another --name, or delete that job"),
    Refusal("namespaces ", SettingsError, "Create the namespace, or set KUBE_NAMESPACE"),
    Refusal("(NotFound)", SettingsError, "`kubectl get` shows the jobs; it may have been deleted"),
    Refusal("is invalid", SettingsError, "Change the setting that the message names"),
    Refusal("context was not found", SettingsError, "`kubectl config get-contexts` lists them"),
    Refusal("context ", SettingsError, "`kubectl config get-contexts` lists them"),
    Refusal(
        "connection refused", ToolError, "Check the kubeconfig's server, the VPN and the cluster"
    ),
    Refusal(
        "Unable to connect", ToolError, "Check the kubeconfig's server, the VPN and the cluster"
    ),
    Refusal("was refused", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
    Refusal("no such host", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
    Refusal("timeout", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
)


@dataclass(frozen=True, kw_only=True)
class KubernetesCluster:
    """A cluster. Empty names leave the choice to the kubeconfig."""

    context: str = ""
    namespace: str = ""

    def kubectl(self, *words: str, namespace: str = "", stdin: str = "") -> Command:
        """Return a kubectl command with this cluster's context and namespace."""
        where = namespace or self.namespace
        place = []
        if self.context:
            place.append(f"--context={self.context}")
        if where:
            place.append(f"--namespace={where}")
        return Command(argv=("kubectl", *place, *words), stdin=stdin)

    def get(self, resource: str, *words: str, namespace: str = "") -> Command:
        """Return the command that prints an object or list as JSON, with a timeout."""
        return self.kubectl(
            "get", resource, *words, "--output=json", "--request-timeout=30s", namespace=namespace
        )

    def pause(self, seconds: int) -> Command:
        return Command(argv=("sleep", str(seconds)))

    def create(self, *manifests: Object) -> Command:
        """Return the command that creates objects from stdin.

        It prints each one's namespace/name and uid: `team/train-1 0f3c…`.
        """
        document: Object = manifests[0]
        if len(manifests) > 1:
            document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return self.create_text(dump_yaml(document))

    def create_text(self, text: str) -> Command:
        """Return the command that creates the objects of a YAML text; see `create`."""
        return self.kubectl("create", "--filename=-", _SHOWN, stdin=text)

    def replace(self, resource: str, item: Object, *, namespace: str = "") -> Command:
        """Return the command that sets an object's spec, labels and annotations; see `create`.

        It fails if the object has changed since `item` was read. `kubectl replace` would write the
        annotation anew from which a later `kubectl apply` tells what the user took out.
        """
        metadata = item["metadata"]
        values = {
            "/spec": item["spec"],
            "/metadata/labels": metadata.get("labels") or {},
            "/metadata/annotations": metadata.get("annotations") or {},
        }
        version = {"path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        patch = [{"op": "test", **version}]
        patch += [{"op": "add", "path": path, "value": value} for path, value in values.items()]
        words = ("patch", resource, metadata["name"], "--type=json", "--patch-file=/dev/stdin")
        return self.kubectl(*words, _SHOWN, namespace=namespace, stdin=json.dumps(patch))


def split_id(job_id: str) -> tuple[str, str]:
    """Return namespace and name of `namespace/name`; without a slash the namespace is ""."""
    namespace, _, name = job_id.rpartition("/")
    if not name or "/" in namespace:
        raise SettingsError(f"{job_id!r} is not a job", "Use namespace/name")
    return namespace, name


def checked_name(name: str, suffix: str) -> str:
    """Return `name`. Raises SettingsError if `name + suffix` exceeds 63 characters (DNS label).

    Operators create no pod with such a name and write the reason to their own log only.
    """
    if len(name + suffix) > _LABEL_LENGTH:
        raise SettingsError(
            f"{name} is too long for a job's name: its pod {name + suffix} has "
            f"{len(name + suffix)} characters, {_LABEL_LENGTH} are allowed",
            "Give the run a shorter --name",
        )
    if not _LABEL.fullmatch(name):
        raise SettingsError(
            f"{name!r} is not a name for a job", "Use small letters, digits and '-', a letter first"
        )
    return name


def quote_literal(words: tuple[str, ...]) -> list[str]:
    """Escape `$` in words of `args`, so that the kubelet expands no $(VAR) in them."""
    return [word.replace("$", "$$") for word in words]


def strip_address(result: Result) -> str:
    """Return kubectl's last line without the URL of its request, which holds a whole script."""
    return re.sub(r'(Get|Post) "https?://[^"]*": ', "", result.last_line)


def make_kubectl_error(result: Result, doing: str) -> GpuProfileError:
    """Return the error that kubectl's message means, with what to do."""
    message = strip_address(result).removeprefix("error: ").removeprefix("Error from server: ")
    what = f"{doing}: {message}"
    return explain_refusal(_REFUSALS, result.stderr, what, JobError(what, "See kubectl's message"))


def check_kubectl_result(result: Result, doing: str) -> Result:
    """Return the result. Raises the error of make_kubectl_error if kubectl failed."""
    if result.returncode:
        raise make_kubectl_error(result, doing)
    return result


def parse_object(result: Result, doing: str) -> Object:
    """Return the object that a `get` printed."""
    document: Object = json.loads(check_kubectl_result(result, doing).stdout or "{}")
    return document
