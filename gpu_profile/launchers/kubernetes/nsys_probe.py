"""Ask the nsys of the job's image for its options, in a short-lived pod."""

import hashlib
import json
import re

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Result, Steps
from gpu_profile.errors import GpuProfileError, JobError, NoNsysError
from gpu_profile.job import Job
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.carrier_pod import add_carrier
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    check_kubectl_result,
    checked_name,
    parse_object,
)
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.nsys.recorder import AGENT, is_armed, make_old_image_error
from gpu_profile.signals import HungUp

_ASK_OURS = "[ -e /profile.py ] || exit 127; exec nsys profile --help"
_TOO_OLD = 95
"""Exit code of the pod if its image is of ours and cannot record on demand."""
_ASK_ARMED = f"[ ! -e /profile.py ] || [ -e {AGENT} ] || exit {_TOO_OLD}; {_ASK_OURS}"
ASK_TORCH = f"[ -e {CARRIED_TO}/agent/torch_recording.py ] || exit 127"
"""An image of ours from before 2026-11-25, and any other, has no such file."""
_MISSING = re.compile(
    r"exit code 127\b|executable file .*not found|\bexec: .*no such file", re.IGNORECASE
)
"""A shell, runc and crun where the image lacks the program: crun names no `exec:`. The kubelet says
"not found" of an image, a Secret and a claim, too."""
_NO_IMAGE = re.compile(r"ErrImage|ImagePull|InvalidImageName")
_PULL = "See that its name and tag are right, and that the nodes may pull it"
_OTHER_MACHINE = "exec format error"
_CARRIED = "It takes bash, glibc 2.29 or newer, and an image of ours that the nodes can pull"
_CHECK = "Check the image, and what the cluster lets run: `invoke doctor --on mpijob`"


def _make_question(job: Job) -> list[str]:
    """Return the command of the pod. Pods of a job with a carrier need bash for their script."""
    if job.is_by_torch:
        return ["/bin/bash" if job.carrier else "sh", "-c", ASK_TORCH]
    if not job.carrier:
        return ["sh", "-c", _ASK_ARMED if is_armed(job) else _ASK_OURS]
    words = (job.carrier.python, "-E", job.carrier.checker, "help", job.carrier.directory)
    return ["/bin/bash", "-c", 'exec "$@"', "gpu-profile", *words]


def name_asked(job: Job) -> str:
    """Return what a pod is asked for, which is its container's name: errors tell it."""
    return "agent" if job.is_by_torch else "nsys"


def make_probe_manifest(name: str, job: Job, options: PodOptions) -> Manifest:
    """Return a pod with the job's image and placement.

    So a problem that would stop the job's pods shows here first.
    """
    container: Manifest = {
        "name": name_asked(job),
        "imagePullPolicy": "IfNotPresent",
        "command": _make_question(job),
    }
    spec: Manifest = {
        "restartPolicy": "Never",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "vpc.amazonaws.com/efa", "operator": "Exists"},
        ],
        "containers": [container],
    }
    manifests.place_pod(spec, options)
    manifests.edit_container(container, options, job)
    if job.carrier:
        add_carrier(spec, container, job.carrier)
    add_host_path(spec, options.place)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "gpu-profile"}},
        "spec": spec,
    }


def add_host_path(spec: Manifest, place: ReportPlace) -> None:
    """Add the node's directory to a pod that does not use it: PodSecurity may refuse it."""
    if place.host_path:
        volume = {"name": "reports", "hostPath": {"path": place.host_path}}
        spec["volumes"] = [*spec.get("volumes", ()), volume]


def identify_answer(cluster: KubernetesCluster, manifest: Manifest) -> Steps[str]:
    """Return a key of what such a pod answers on this cluster, or "" if its image may change.

    All of the pod's spec counts: its placement may choose the nodes' architecture.
    """
    spec = manifest["spec"]
    containers = (*spec.get("initContainers", ()), *spec["containers"])
    if not all("@sha256:" in container["image"] for container in containers):
        return ""
    address = "--output=jsonpath={.clusters[0].cluster.server}"
    server = yield cluster.kubectl("config", "view", "--minify", address)
    if server.returncode or not server.stdout:
        return ""
    # A date in a user's YAML is no text: default=str.
    text = json.dumps([server.stdout, spec], sort_keys=True, default=str)
    return f"pod:{hashlib.sha256(text.encode()).hexdigest()}"


def ask_for_help(cluster: KubernetesCluster, job: Job, options: PodOptions) -> Steps[str]:
    """Return the output of `nsys profile --help`. Raises JobError if the pod does not run."""
    manifest = make_probe_manifest(draw_probe_name(job), job, options)
    return ask_pod(cluster, manifest, options.wait_s)


def draw_probe_name(job: Job) -> str:
    """Return a name for the pod: two runs of one name may probe at the same time."""
    return pods.draw_name(f"{checked_name(job.name, '-probe-xxxxxx')}-probe")


def ask_pod(cluster: KubernetesCluster, manifest: Manifest, wait_s: int) -> Steps[str]:
    """Return the output of a pod that ends by itself. Raises JobError if it does not run."""
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    image, question = (spec["containers"][0][key] for key in ("image", "name"))
    asking = f"asking {image} for its {question}"
    remove = cluster.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")
    try:
        created = yield cluster.create(manifest)
        check_kubectl_result(created, asking)
        reason = yield from _wait_for_pod(cluster, name, wait_s)
        logs = yield cluster.kubectl("logs", name)
        if not reason:
            check_kubectl_result(logs, asking)
    # Not `finally`: a generator that is closed may not yield there.
    except (GpuProfileError, KeyboardInterrupt, HungUp):
        yield remove
        raise
    check_kubectl_result((yield remove), f"{name} is left there")
    if reason:
        hint = _CARRIED if "initContainers" in spec else ""
        raise _make_probe_error(f"{question} in {image}", reason, logs, hint)
    return logs.stdout


def _make_probe_error(subject: str, reason: str, logs: Result, hint: str) -> GpuProfileError:
    """Return the error of a pod that failed: NoNsysError if the image has nothing of ours.

    `subject`: "nsys in registry.example/train:1".
    """
    if f"exit code {_TOO_OLD}" in reason:
        return make_old_image_error(subject.partition(" in ")[2])
    last = logs.stdout.strip().splitlines()[-1:]
    if _OTHER_MACHINE in f"{reason} {' '.join(last)}":
        what = f"{subject} cannot be asked: the node is of another architecture"
        return JobError(what, "Take an image built for it, and one of ours from such a machine")
    kind = NoNsysError if _MISSING.search(reason) else JobError
    hint = hint or (_PULL if _NO_IMAGE.search(reason) else _CHECK)
    return kind(": ".join([f"{subject} cannot be asked", reason, *last]), hint)


def _wait_for_pod(cluster: KubernetesCluster, name: str, seconds: int) -> Steps[str]:
    """Wait for the pod's success and return "", or the reason as soon as it fails."""
    trouble: pods.Trouble | None = None
    for _ in range(seconds + 1):
        answer = yield cluster.get("pod", name)
        pod = parse_object(answer, f"asking for {name}")
        phase = pods.get_phase(pod) if pod else "Succeeded"
        if phase in {"Succeeded", "Failed"}:
            return "" if phase == "Succeeded" else pods.describe_ending(pod) or "it failed"
        trouble = pods.find_trouble(pod)
        if trouble and trouble.hopeless:
            return trouble.reason
        yield cluster.pause(1)
    return f"not running after {seconds} s: {trouble.reason if trouble else phase}"
