"""Open MPI and sshd: settings, script arguments and rules."""

from packaging.version import Version

from gpu_profile.components.component import Component, InstalledVersion
from gpu_profile.components.efa import by_installer
from gpu_profile.declared.key import Values, make_switch_key
from gpu_profile.declared.rule import Facts, Rule

PRTE_HOSTFILE = "PRTE_MCA_prte_default_hostfile"


def mpi_source(values: Values) -> str:
    """Return Open MPI's source: AWS's if its EFA installer runs, otherwise the distribution's."""
    return "efa-installer" if by_installer(values) else "distribution"


def _find_version(values: Values, distribution: str) -> Version:
    """Return Open MPI's major version. AWS's installer brings 4.1 beside 5."""
    return Version("5" if distribution == "debian13" and not by_installer(values) else "4")


def _operator_without_prte(facts: Facts) -> str:
    """Open MPI 5 reads the host file from a PRTE variable.

    Our manifest sets the variables of Open MPI 4 and 5; a user's own manifest may not.
    """
    version = facts.versions.get("mpi")
    applies = "kind: MPIJob" in facts.manifest and version and version.major >= 5
    if not applies or PRTE_HOSTFILE in facts.manifest:
        return ""
    return f"Open MPI {version} does not see the MPI operator's host file"


COMPONENT = Component(
    number=30,
    name="mpi",
    doc="Open MPI, and an SSH server fit for MPIJobs",
    is_enabled=lambda values: bool(values["INSTALL_MPI"]),
    toggle="INSTALL_MPI",
    args=lambda values: {"MPI_SOURCE": mpi_source(values)},
    keys=(
        make_switch_key(
            "INSTALL_MPI", "Open MPI, with an SSH server for multi-node jobs", default=True
        ),
    ),
    installed_versions=(InstalledVersion(name="mpi", command="mpirun --version", in_bases=True),),
    version_of=_find_version,
    rules=(
        Rule(
            name="Open MPI 5 under an operator",
            find_fault=_operator_without_prte,
            reason="it ignores the ORTE variables that the operator sets: "
            "every node would run alone",
            source="github.com/NVIDIA/nccl-tests/issues/213, mpi-operator v0.8.2",
            hint=f"Set {PRTE_HOSTFILE}=/etc/mpi/hostfile in the launcher of the manifest",
        ),
    ),
)
