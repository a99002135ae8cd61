"""One cluster through kubectl: its calls as Commands, and what its refusals mean."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from gpu_profile.command import Command, Result
from gpu_profile.errors import GpuProfileError, JobError, SettingsError, ToolError

Object = Mapping[str, Any]
"""One object of the API, as `kubectl -o json` prints it."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_LENGTH = 63

_ROLE = "Ask for a role that allows it; `invoke doctor --on mpijob` lists what is needed"
_REFUSALS: tuple[tuple[str, type[GpuProfileError], str], ...] = (
    (
        "must be created before the TrainJob",
        ToolError,
        "Apply Trainer's runtimes, torch-distributed",
    ),
    ("failed calling webhook", ToolError, "Its operator does not run: see `invoke doctor --on`"),
    ("error sending request", ToolError, "A node does not answer: see `kubectl get nodes`"),
    ("error dialing backend", ToolError, "A node does not answer: see `kubectl get nodes`"),
    ("no PriorityClass", SettingsError, "Set KUBE_PRIORITY_CLASS to one that the cluster has"),
    ("looking up service account", SettingsError, "Create it, or set KUBE_SERVICE_ACCOUNT"),
    ("exceeded quota", JobError, "Ask for fewer nodes or GPUs, or have the quota raised"),
    ("violates PodSecurity", JobError, "Set KUBE_RUN_AS_USER, or use a namespace that allows it"),
    ("is forbidden: User", ToolError, _ROLE),
    ("(Forbidden)", ToolError, _ROLE),
    ("Unauthorized", ToolError, "Log in to the cluster again"),
    ("You must be logged in", ToolError, "Log in to the cluster again"),
    ("doesn't have a resource type", ToolError, "`invoke k8s.install-operator` installs it"),
    ("find the requested resource", ToolError, "`invoke k8s.install-operator` installs it"),
    ("no matches for kind", ToolError, "`invoke k8s.install-operator` installs it"),
    ("AlreadyExists", SettingsError, "Give the run another --name, or delete that job"),
    ("namespaces ", SettingsError, "Create the namespace, or set KUBE_NAMESPACE"),
    ("(NotFound)", SettingsError, "`kubectl get` shows the jobs; it may have been deleted"),
    ("is invalid", SettingsError, "Change the setting that the message names"),
    ("context was not found", SettingsError, "`kubectl config get-contexts` lists them"),
    ("context ", SettingsError, "`kubectl config get-contexts` lists them"),
    ("onnection refused", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
    ("Unable to connect", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
    ("was refused", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
    ("no such host", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
    ("timeout", ToolError, "Check the kubeconfig's server, the VPN and the cluster"),
)


class _Readable(yaml.SafeDumper):
    """Scripts as blocks, the way people write them; what a block cannot hold stays quoted."""


def _draw_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if text.endswith("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _draw_text)


@dataclass(frozen=True, kw_only=True)
class KubernetesCluster:
    """Empty names leave the choice to the kubeconfig."""

    context: str = ""
    namespace: str = ""

    def kubectl(self, *words: str, namespace: str = "", stdin: str = "") -> Command:
        where = namespace or self.namespace
        return Command(
            argv=(
                "kubectl",
                *((f"--context={self.context}",) if self.context else ()),
                *((f"--namespace={where}",) if where else ()),
                *words,
            ),
            stdin=stdin,
        )

    def get(self, resource: str, *words: str, namespace: str = "") -> Command:
        """One object or list as JSON. Bounded: a cluster that is away is said to be so."""
        return self.kubectl(
            "get", resource, *words, "--output=json", "--request-timeout=30s", namespace=namespace
        )

    def pause(self, seconds: int) -> Command:
        return Command(argv=("sleep", str(seconds)))

    def create(self, *manifests: Object) -> Command:
        """Create from stdin; prints namespace/name of what was made."""
        document: Object = manifests[0]
        if len(manifests) > 1:
            document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return self.kubectl(
            "create",
            "--filename=-",
            "--output=jsonpath={.metadata.namespace}/{.metadata.name}",
            stdin=yaml.dump(document, Dumper=_Readable, sort_keys=False, width=100),
        )


def split_id(job_id: str) -> tuple[str, str]:
    """Namespace and name of `namespace/name`; the namespace is empty where none is said."""
    namespace, _, name = job_id.rpartition("/")
    if not name or "/" in namespace:
        raise SettingsError(f"{job_id!r} is no job", "Use namespace/name")
    return namespace, name


def checked_name(name: str, suffix: str) -> str:
    """`name`, if the pod it becomes with `suffix` is a DNS label, which operators only whisper."""
    if len(name + suffix) > _LABEL_LENGTH:
        raise SettingsError(
            f"{name} is too long for a job's name: its pod {name + suffix} has "
            f"{len(name + suffix)} characters, {_LABEL_LENGTH} are allowed",
            "Give the run a shorter --name",
        )
    if not _LABEL.fullmatch(name):
        raise SettingsError(
            f"{name!r} is no name for a job", "Use small letters, digits and '-', a letter first"
        )
    return name


def quote_literal(words: tuple[str, ...]) -> list[str]:
    """Words for `args` that the kubelet's own $(VAR) and $$ leave as they are."""
    return [word.replace("$", "$$") for word in words]


def strip_address(result: Result) -> str:
    """kubectl's last line without the address of its call, which holds the whole of a script."""
    return re.sub(r'(Get|Post) "https?://[^"]*": ', "", result.said)


def make_kubectl_error(result: Result, doing: str) -> GpuProfileError:
    """The error that kubectl's message means."""
    message = strip_address(result).removeprefix("error: ").removeprefix("Error from server: ")
    for words, kind, hint in _REFUSALS:
        if words in result.stderr:
            return kind(f"{doing}: {message}", hint)
    return JobError(f"{doing}: {message}", "See kubectl's message")


def check_kubectl_result(result: Result, doing: str) -> Result:
    if result.returncode:
        raise make_kubectl_error(result, doing)
    return result


def parse_object(result: Result, doing: str) -> Object:
    """The object that a `get` printed."""
    document: Object = json.loads(check_kubectl_result(result, doing).stdout or "{}")
    return document
