"""NVIDIA's Nsight injectors for Kubernetes: helm values, and labels that enable them.

Two generations: the devtools sidecar injector 1.0.x and the Nsight Operator 26.x, as NVIDIA's NGC
pages document them. Both change pods that are created after the label was set, never running ones.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.check import Check
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.kubernetes.injector_charts import INJECTED, Generation
from gpu_profile.kubernetes.kubectl import KubernetesCluster, check_kubectl_result
from gpu_profile.kubernetes.pinned_file import is_url, use_pinned

_WAIT = "5m"
_PLACEHOLDER = re.compile(r"(%?)\{(PROCESS_NAME|POD_FULLNAME|CONTAINER_NAME|TIMESTAMP|UID)\}")
"""What the injector itself puts in; nsys puts in `%q{RANK}` and `%h`."""
LIGHT = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none")


@dataclass(frozen=True, kw_only=True)
class Injection:
    """What to inject: a pattern of processes, nsys' options, the reports' directory and names."""

    match: str
    options: tuple[str, ...] = LIGHT
    name: str = "rank%q{RANK}.%h"
    delay_s: float = 0.0
    duration_s: float = 0.0
    directory: str = f"/wd/{INJECTED}"
    image: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def make_arguments(self, prefix: str) -> str:
        """Return the nsys command line. nsys and the injector put values into the report's name.

        --kill=none: the end of the window does not end the job.
        """
        window = [f"--delay={self.delay_s:g}"] if self.delay_s else []
        if self.duration_s:
            window += [f"--duration={self.duration_s:g}", "--kill=none"]
        name = _PLACEHOLDER.sub(lambda match: f"{match[1]}{{{prefix}{match[2]}}}", self.name)
        output = f"--output={self.directory}/{name}"
        return " ".join(["profile", *self.options, *window, output])


def match_of(command: Sequence[str]) -> str:
    """Return a pattern for a rank's whole command line, which torchrun's own does not match."""
    program = re.escape(command[0].rpartition("/")[2])
    words = " ".join(re.escape(word) for word in command[1:])
    return rf"^(\S*/)?{program}{' ' + words if words else ''}$"


def make_chart_values(kind: Generation, injection: Injection) -> dict[str, Any]:
    """Return the helm chart's values. The user's values override ours."""
    arguments = injection.make_arguments(kind.prefix)
    if kind.name == "devtools":
        chart_values: dict[str, Any] = {
            "profile": {"devtoolArgs": arguments, "injectionMatch": injection.match}
        }
        if injection.image:
            chart_values["devtoolBinariesImage"] = {"image": injection.image}
    else:
        tool = {
            # Without the coordinator pods record by themselves, by the arguments, and need no
            # bucket.
            "coordinator": {"enabled": False},
            "nsightToolArgs": arguments,
            "injectionIncludePatterns": [injection.match],
        }
        chart_values = {
            "nsight-injector": {"nsightToolConfig": tool},
            "cloudStorage": {"enabled": False},
            "machineConfig": None,  # do not change kernel settings of the nodes
        }
    return _merge_values(chart_values, injection.values)


def _merge_values(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge_values(merged[key], value) if both else value
    return merged


def parse_values(text: str) -> dict[str, Any]:
    """Return the mapping in the text of a values file. Raises SettingsError."""
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise SettingsError(f"the values are not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise SettingsError("the values are not a mapping", "Write them as helm's values.yaml")
    return document


def _make_helm_command(cluster: KubernetesCluster, *words: str, stdin: str = "") -> Command:
    context = (f"--kube-context={cluster.context}",) if cluster.context else ()
    return Command(argv=("helm", *context, f"--namespace={cluster.namespace}", *words), stdin=stdin)


def _check_result(result: Result, doing: str) -> Result:
    if result.returncode:
        raise ToolError(
            f"{doing}: {result.last_line}", "`helm status` and the pods' events say more"
        )
    return result


def install_chart(
    cluster: KubernetesCluster,
    kind: Generation,
    chart: str,
    injection: Injection,
    *,
    sha256: str = "",
    unlocked: bool = False,
) -> Steps[str]:
    """Install or upgrade the chart. The same values again change nothing.

    A chart of a URL must have this SHA-256. Raises SettingsError without one, but for `unlocked`.
    """
    source = chart or kind.chart
    if not is_url(source) or (unlocked and not sha256):
        return (yield from _upgrade_release(cluster, kind, source, injection))
    if not sha256:
        raise SettingsError(
            f"{source} is not pinned by its sha256",
            f"`invoke lock --set KUBE_INJECTOR={kind.name}` pins it, --sha256 names it,"
            " --unlocked takes what is there",
        )
    return (
        yield from use_pinned(
            source, sha256, lambda file: _upgrade_release(cluster, kind, file, injection)
        )
    )


def _upgrade_release(
    cluster: KubernetesCluster, kind: Generation, chart: str, injection: Injection
) -> Steps[str]:
    text = yaml.safe_dump(make_chart_values(kind, injection), sort_keys=False)
    words = ("upgrade", "--install", kind.release, chart, "--create-namespace")
    upgrade = _make_helm_command(
        cluster, *words, "--wait", f"--timeout={_WAIT}", "--values=-", stdin=text
    )
    _check_result((yield upgrade), f"installing {kind.release}")
    return (
        f"{kind.release} is installed in {cluster.namespace}; switch it on for a namespace or a job"
    )


def remove_chart(cluster: KubernetesCluster, kind: Generation) -> Steps[str]:
    """Uninstall the chart, and wait until it is gone. Does nothing where it is not there."""
    remove = _make_helm_command(cluster, "uninstall", kind.release, "--ignore-not-found", "--wait")
    _check_result((yield remove), f"removing {kind.release}")
    return f"{kind.release} is gone; CRDs of the chart, if any, stay: helm never removes them"


def set_namespace_label(
    cluster: KubernetesCluster, kind: Generation, namespace: str, *, on: bool
) -> Steps[str]:
    """Set or remove the label of a namespace, for pods that are created from then on."""
    key, value = kind.label
    label = f"{key}={value}" if on else f"{key}-"
    command = cluster.kubectl("label", "namespace", namespace, label, "--overwrite")
    check_kubectl_result((yield command), f"labelling {namespace}")
    return f"pods made in {namespace} from now on are {'' if on else 'not '}injected"


def check_injector(cluster: KubernetesCluster, kind: Generation) -> Steps[tuple[Check, ...]]:
    """Return the checks of the release, its webhook, and the labelled namespaces."""
    release_result = yield _make_helm_command(cluster, "status", kind.release, "--output=json")
    release = (
        json.loads(release_result.stdout)["info"]["status"] if not release_result.returncode else ""
    )
    label = "=".join(kind.label)
    hooks = yield cluster.kubectl("get", "mutatingwebhookconfigurations", "--output=name")
    ours = [h.partition("/")[2] for h in hooks.stdout.split() if "inject" in h or "nsight" in h]
    spaces = yield cluster.kubectl("get", "namespaces", f"--selector={label}", "--output=name")
    pods = yield cluster.kubectl("get", "pods", "-A", f"--selector={label}", "--output=name")
    install_it = f"`invoke k8s.injector install --generation {kind.name}`"
    return (
        Check(name=kind.release, ok=release == "deployed", result=release, advice=install_it),
        Check(name="webhook", ok=bool(ours), result=", ".join(ours), advice=install_it),
        Check(name="namespaces", ok=True, result=_list_names(spaces)),
        Check(name="pods", ok=True, result=_list_names(pods)),
    )


def _list_names(result: Result) -> str:
    names = [line.partition("/")[2] for line in result.stdout.split()]
    return ", ".join(names) or "none labelled"
