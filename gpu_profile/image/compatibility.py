"""Rules for settings that do not work together, checked before a build.

Each rule has its reason and its source. A rule does not apply if its facts are unknown, such as
the CUDA version of a user's own base image.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpu_profile.errors import SettingsError
from gpu_profile.image.compatibility_facts import Facts, Version, collect_facts, format_version
from gpu_profile.settings.settings import Settings

_EFA_CHANGES = "docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html"
_CUDA_NOTES = "docs.nvidia.com/cuda/cuda-toolkit-release-notes"
_NSYS_NOTES = "docs.nvidia.com/nsight-systems/ReleaseNotes"
PRTE_HOSTFILE = "PRTE_MCA_prte_default_hostfile"

CUDA_FOR_ARCH: dict[int, Version] = {
    80: (11, 0),
    86: (11, 1),
    87: (11, 4),
    89: (11, 8),
    90: (11, 8),
    100: (12, 8),
    101: (12, 8),
    103: (12, 9),
    110: (13, 0),
    120: (12, 8),
    121: (12, 9),
}
"""The first CUDA toolkit whose nvcc compiles for a compute capability."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule. `broken` returns what is wrong with the facts, or "" if the rule holds."""

    name: str
    broken: Callable[[Facts], str]
    reason: str
    source: str
    hint: str


def _efa_on(distribution: str, since: Version) -> Callable[[Facts], str]:
    def broken(facts: Facts) -> str:
        if facts.distribution != distribution or not facts.efa or facts.efa < since:
            return ""
        return f"EFA installer {format_version(facts.efa)} does not install on {distribution}"

    return broken


def _efa_without_plugin(facts: Facts) -> str:
    old = facts.efa is not None and facts.efa < (1, 38)
    return f"EFA installer {format_version(facts.efa or ())} brings no aws-ofi-nccl" if old else ""


def _arch_too_old_for_cuda(facts: Facts) -> str:
    old = [arch for arch in facts.archs if arch < 75]
    new = facts.cuda is not None and facts.cuda >= (13,)
    return (
        f"CUDA {format_version(facts.cuda or ())} does not compile for sm_{old[0]}"
        if new and old
        else ""
    )


def _arch_too_new_for_cuda(facts: Facts) -> str:
    for arch in facts.archs:
        needed = CUDA_FOR_ARCH.get(arch)
        if facts.compiles and facts.cuda and needed and facts.cuda < needed:
            cuda = format_version(facts.cuda)
            return f"CUDA {cuda} does not know sm_{arch}, {format_version(needed)} does"
    return ""


def _arch_removed_from_cuda(facts: Facts) -> str:
    removed = facts.compiles and 101 in facts.archs and (facts.cuda or ()) >= (13,)
    return "CUDA 13 knows sm_101 as sm_110" if removed else ""


def _nsys_drops_gpu(facts: Facts) -> str:
    old = [arch for arch in facts.archs if arch < 75]
    new = facts.nsys is not None and facts.nsys >= (2025, 4)
    return (
        f"nsys {format_version(facts.nsys or ())} does not trace sm_{old[0]}" if new and old else ""
    )


def _nsys_before_gpu(facts: Facts) -> str:
    blackwell = [arch for arch in facts.archs if arch >= 100]
    old = facts.nsys is not None and facts.nsys < (2025, 1)
    return (
        f"nsys {format_version(facts.nsys or ())} is older than sm_{blackwell[0]}"
        if old and blackwell
        else ""
    )


def _operator_without_prte(facts: Facts) -> str:
    """Open MPI 5 reads the host file from a PRTE variable.

    Our manifest sets the variables of Open MPI 4 and 5; a user's own manifest may not.
    """
    applies = facts.launcher == "mpijob" and facts.open_mpi >= 5 and bool(facts.manifest)
    if not applies or PRTE_HOSTFILE in facts.manifest:
        return ""
    return f"Open MPI {facts.open_mpi} does not see the MPI operator's host file"


RULES: tuple[Rule, ...] = (
    Rule(
        name="EFA on Ubuntu 20.04",
        broken=_efa_on("ubuntu20.04", (1, 43)),
        reason="the installer dropped it in 1.43",
        source=_EFA_CHANGES,
        hint="Take a BASE_IMAGE of Ubuntu 22.04 or newer, or EFA_SOURCE=distro",
    ),
    Rule(
        name="EFA on Debian 11",
        broken=_efa_on("debian11", (1, 51)),
        reason="the installer dropped it in 1.51",
        source=_EFA_CHANGES,
        hint="Take a BASE_IMAGE of Debian 12, or EFA_VERSION=1.50.0",
    ),
    Rule(
        name="NCCL plugin by installer",
        broken=_efa_without_plugin,
        reason="it is part of the installer from 1.38 on, and NCCL uses sockets without it",
        source="github.com/aws/aws-ofi-nccl/issues/803",
        hint="Set EFA_VERSION to 1.44.0 or newer",
    ),
    Rule(
        name="CUDA and old GPUs",
        broken=_arch_too_old_for_cuda,
        reason="CUDA 13 dropped Maxwell, Pascal and Volta",
        source=_CUDA_NOTES,
        hint="Take a BASE_IMAGE with CUDA 12, or leave it out of CUDA_ARCHS",
    ),
    Rule(
        name="CUDA and new GPUs",
        broken=_arch_too_new_for_cuda,
        reason="nvcc compiles only for what it knows",
        source=_CUDA_NOTES,
        hint="Take a newer BASE_IMAGE, or leave it out of CUDA_ARCHS: PTX serves newer GPUs",
    ),
    Rule(
        name="CUDA 13's new names",
        broken=_arch_removed_from_cuda,
        reason="compute capability 10.1 was renamed",
        source=_CUDA_NOTES,
        hint="Write 110 in CUDA_ARCHS",
    ),
    Rule(
        name="nsys and old GPUs",
        broken=_nsys_drops_gpu,
        reason="Pascal and Volta were dropped in 2025.4",
        source=_NSYS_NOTES,
        hint="Set NSYS_VERSION to 2025.3.2 or older, or leave it out of CUDA_ARCHS",
    ),
    Rule(
        name="nsys and new GPUs",
        broken=_nsys_before_gpu,
        reason="hardware tracing of Blackwell came with 2025.1 and 2025.2",
        source=_NSYS_NOTES,
        hint="Set NSYS_VERSION to 2025.2 or newer",
    ),
    Rule(
        name="Open MPI 5 under an operator",
        broken=_operator_without_prte,
        reason="it ignores the ORTE variables that the operator sets: every node would run alone",
        source="github.com/NVIDIA/nccl-tests/issues/213, mpi-operator v0.8.2",
        hint=f"Set {PRTE_HOSTFILE}=/etc/mpi/hostfile in the launcher of the manifest",
    ),
)


def list_broken(image_facts: Facts) -> tuple[tuple[Rule, str], ...]:
    """Return every rule that these facts break, with what is wrong."""
    messages = ((rule, rule.broken(image_facts)) for rule in RULES)
    return tuple((rule, what) for rule, what in messages if what)


def check_compatibility(settings: Settings, *, manifest: str = "") -> None:
    """Raise SettingsError for the first broken rule. Settings must be decided and locked."""
    for rule, what in list_broken(collect_facts(settings, manifest=manifest)):
        raise SettingsError(f"{what}: {rule.reason} ({rule.source})", rule.hint)
