"""`doctor --on mpijob`: the rights that a job's pods have with these settings, and why."""

from gpu_profile.check import Check
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.state import Kind

_ROOT = "the image's own, root for most images"
_SAMPLING = "SYS_ADMIN and root are added for --preset full and CPU sampling only"


def explain_rights(kind: Kind, options: PodOptions) -> tuple[Check, ...]:
    """Return a check for each right of the pods. `ok` is False for one that stays, with why."""
    return (
        _explain_user(options),
        _explain_capabilities(kind, options),
        Check(name="pods' seccomp", ok=True, found="RuntimeDefault"),
        Check(
            name="pods' API token",
            ok=True,
            found="not mounted",
        ),
    )


def _explain_user(options: PodOptions) -> Check:
    if options.run_as_user:
        return Check(name="pods' user", ok=True, found=f"{options.run_as_user}, not root")
    reason = "KUBE_RUN_AS_USER is 0"
    if options.own_user:
        reason = (
            "A claim on NFS or FSx may be root's alone"
            if options.pvc
            else "INSTALL_MPI=false: the image has no account with the id 1000"
        )
    advice = f"{reason}. Set KUBE_RUN_AS_USER to a user who may write the reports"
    return Check(name="pods' user", ok=False, found=_ROOT, advice=advice)


def _explain_capabilities(kind: Kind, options: PodOptions) -> Check:
    name = "pods' capabilities"
    if kind.root_needs and not options.run_as_user:
        needs = ", ".join(kind.root_needs)
        advice = f"A root sshd needs them for its sandbox and its log-in. {_SAMPLING}"
        return Check(name=name, ok=False, found=f"{needs} in workers", advice=advice)
    note = f"; {kind.rights_note}" if kind.rights_note else ""
    return Check(name=name, ok=True, found=f"none; {_SAMPLING}{note}")
