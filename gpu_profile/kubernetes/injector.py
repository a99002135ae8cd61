"""NVIDIA's Nsight injectors for Kubernetes: helm's values as data, labels that switch them.

Two generations, from their NGC pages and documentation: the devtools sidecar injector 1.0.x and
the Nsight Operator 26.x. Both act on pods made after the label was set, never on running ones.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpu_profile.check import Check
from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.kubernetes.injector_charts import INJECTED, Generation
from gpu_profile.kubernetes.kubectl import Cluster, checked

_WAIT = "5m"
LIGHT = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none")


@dataclass(frozen=True, kw_only=True)
class Injection:
    """What is injected: which processes, nsys' options, and where its reports go in a pod."""

    match: str
    options: tuple[str, ...] = LIGHT
    delay_s: float = 0.0
    duration_s: float = 0.0
    directory: str = f"/wd/{INJECTED}"
    image: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        """The nsys command line; nsys itself puts rank and host into the report's name.

        A window does not end the job: --kill=none.
        """
        window = [f"--delay={self.delay_s:g}"] if self.delay_s else []
        if self.duration_s:
            window += [f"--duration={self.duration_s:g}", "--kill=none"]
        output = f"--output={self.directory}/rank%q{{RANK}}.%h"
        return " ".join(["profile", *self.options, *window, output])


def match_of(command: Sequence[str]) -> str:
    """A pattern for the whole command line of a rank, and not of the torchrun that starts it."""
    program = re.escape(command[0].rpartition("/")[2])
    words = " ".join(re.escape(word) for word in command[1:])
    return rf"^(\S*/)?{program}{' ' + words if words else ''}$"


def values(kind: Generation, wanted: Injection) -> dict[str, Any]:
    """The chart's values; what the user gave goes over ours."""
    if kind.name == "devtools":
        made: dict[str, Any] = {
            "profile": {"devtoolArgs": wanted.arguments, "injectionMatch": wanted.match}
        }
        if wanted.image:
            made["devtoolBinariesImage"] = {"image": wanted.image}
    else:
        tool = {
            "coordinator": {"enabled": False},
            "nsightToolArgs": wanted.arguments,
            "injectionIncludePatterns": [wanted.match],
        }
        made = {
            "nsight-injector": {"nsightToolConfig": tool},
            "cloudStorage": {"enabled": False},
            "machineConfig": None,  # leaves kernel settings of the nodes alone
        }
    return _over(made, wanted.values)


def _over(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _over(merged[key], value) if both else value
    return merged


def parse_values(text: str) -> dict[str, Any]:
    """A values file's text."""
    try:
        found = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise SettingsError(f"the values are no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise SettingsError("the values are no mapping", "Write them as helm's values.yaml")
    return found


def _helm(cluster: Cluster, *words: str, stdin: str = "") -> Command:
    context = (f"--kube-context={cluster.context}",) if cluster.context else ()
    return Command(argv=("helm", *context, f"--namespace={cluster.namespace}", *words), stdin=stdin)


def _done(result: Result, doing: str) -> Result:
    if result.returncode:
        raise ToolError(f"{doing}: {result.said}", "`helm status` and the pods' events say more")
    return result


def install(cluster: Cluster, kind: Generation, chart: str, wanted: Injection) -> Steps[str]:
    """Install or upgrade; the same values twice change nothing."""
    text = yaml.safe_dump(values(kind, wanted), sort_keys=False)
    words = ("upgrade", "--install", kind.release, chart or kind.chart, "--create-namespace")
    upgrade = _helm(cluster, *words, "--wait", f"--timeout={_WAIT}", "--values=-", stdin=text)
    _done((yield upgrade), f"installing {kind.release}")
    return (
        f"{kind.release} is installed in {cluster.namespace}; switch it on for a namespace or a job"
    )


def uninstall(cluster: Cluster, kind: Generation) -> Steps[str]:
    remove = _helm(cluster, "uninstall", kind.release, "--ignore-not-found", "--wait")
    _done((yield remove), f"removing {kind.release}")
    return f"{kind.release} is gone; CRDs of the chart, if any, stay: helm never removes them"


def switch(cluster: Cluster, kind: Generation, namespace: str, *, on: bool) -> Steps[str]:
    """Set or take the label of a namespace: pods made there from now on."""
    key, value = kind.label
    label = f"{key}={value}" if on else f"{key}-"
    command = cluster.kubectl("label", "namespace", namespace, label, "--overwrite")
    checked((yield command), f"labelling {namespace}")
    return f"pods made in {namespace} from now on are {'' if on else 'not '}injected"


def status(cluster: Cluster, kind: Generation) -> Steps[tuple[Check, ...]]:
    """The release, its webhook, and what is labelled."""
    told = yield _helm(cluster, "status", kind.release, "--output=json")
    release = json.loads(told.stdout)["info"]["status"] if not told.returncode else ""
    label = "=".join(kind.label)
    hooks = yield cluster.kubectl("get", "mutatingwebhookconfigurations", "--output=name")
    ours = [h.partition("/")[2] for h in hooks.stdout.split() if "inject" in h or "nsight" in h]
    spaces = yield cluster.kubectl("get", "namespaces", f"--selector={label}", "--output=name")
    pods = yield cluster.kubectl("get", "pods", "-A", f"--selector={label}", "--output=name")
    install_it = f"`invoke k8s.injector install --generation {kind.name}`"
    return (
        Check(name=kind.release, ok=release == "deployed", found=release, advice=install_it),
        Check(name="webhook", ok=bool(ours), found=", ".join(ours), advice=install_it),
        Check(name="namespaces", ok=True, found=_names(spaces)),
        Check(name="pods", ok=True, found=_names(pods)),
    )


def _names(result: Result) -> str:
    names = [line.partition("/")[2] for line in result.stdout.split()]
    return ", ".join(names) or "none labelled"
