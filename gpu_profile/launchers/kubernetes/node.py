"""A node's pod of PyTorchJob and TrainJob: its ranks, below the script that keeps the reports."""

import dataclasses

from gpu_profile.job import Job, NsysPlan
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.nsys.rank_wrapper import local_arguments

STOP = """(umask 077 && mkdir -p "$1") && : >"$1/.stopped.$(hostname)"
pid=$1/.pid.$(hostname)
if [ -e "$pid" ]; then kill -TERM "$(cat "$pid")" || true; fi"""
"""sh: end what the script started, or is about to; the script itself goes on and holds the
reports."""


def node_env(job: Job, options: PodOptions) -> dict[str, str]:
    """On a claim reports outlive their pods, which then end as soon as all have written."""
    return {
        **job.env,
        "REPORTS": options.directory(job.name),
        "HOLD_SECONDS": str(options.hold_s),
        **({"SHARED": "1"} if options.pvc else {}),
    }


def node_words(job: Job, plan: NsysPlan, options: PodOptions) -> tuple[str, ...]:
    """profile.py starts the node's ranks, with torchrun's variables, from what the operator set.

    An injector puts nsys around what its pattern matches: the ranks themselves are plain then.
    """
    if options.injector:
        job = dataclasses.replace(job, profile=None)
    words = local_arguments(job, plan, output=options.directory(job.name))
    return ("python3", "/profile.py", *words)
