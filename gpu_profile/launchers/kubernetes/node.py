"""The pod of one node of a PyTorchJob or TrainJob, which starts the node's ranks."""

import dataclasses

from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.kubectl import quote_literal
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.nsys.rank_wrapper import local_arguments
from gpu_profile.nsys.recorder import is_armed

STOP = """(umask 077 && mkdir -p "$1") && : >"$1/.stopped.$(hostname)"
pid=$1/.pid.$(hostname)
if [ -e "$pid" ]; then kill -TERM "$(cat "$pid")" || true; fi"""
"""Shell text that ends the ranks, or prevents their start. The pod's script goes on and keeps
the reports."""


def edit_node(container: Manifest, job: Job, plan: NsysPlan, options: PodOptions) -> None:
    """Set the variables and the arguments of the container that starts a node's ranks."""
    manifests.refer_to_secret(container, job)
    manifests.set_env(container, node_env(job, options))
    container["args"] = [job.name, *quote_literal(node_words(job, plan, options))]


def node_env(job: Job, options: PodOptions) -> dict[str, str]:
    """Return our own variables of a node's pod.

    SHARED=1 with a claim: reports outlive the pods there, so pods end once all have written.
    """
    return {
        "REPORTS": options.directory(job.name),
        "HOLD_SECONDS": str(options.hold_s),
        **({"SHARED": "1"} if options.place.claim else {}),
    }


def node_words(job: Job, plan: NsysPlan, options: PodOptions) -> tuple[str, ...]:
    """Return the profile.py command that starts the node's ranks with torchrun's variables.

    With an injector the ranks run without our nsys, because the injector adds its own.
    """
    if options.injector:
        if is_armed(job):
            what = "KUBE_INJECTOR's nsys is not ours, and records from the start"
            raise SettingsError(what, "Leave out --record, or set KUBE_INJECTOR=none")
        job = dataclasses.replace(job, profile=None)
    words = local_arguments(job, plan, output=options.directory(job.name))
    return (*job.profile_words, *words)
