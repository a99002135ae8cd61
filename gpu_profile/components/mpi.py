"""Open MPI and sshd: settings, script arguments, environment."""

from gpu_profile.components.component import Component
from gpu_profile.components.key import Values, make_switch_key


def mpi_source(values: Values) -> str:
    """Return Open MPI's source: AWS's if its EFA installer runs, otherwise the distribution's."""
    by_installer = values["INSTALL_EFA"] and values["EFA_SOURCE"] == "installer"
    return "efa-installer" if by_installer else "distribution"


MPI = Component(
    number=30,
    name="mpi",
    doc="Open MPI, and an SSH server fit for MPIJobs",
    enabled=lambda values: bool(values["INSTALL_MPI"]),
    toggle="INSTALL_MPI",
    args=lambda values: {"MPI_SOURCE": mpi_source(values)},
    keys=(
        make_switch_key(
            "INSTALL_MPI", "Open MPI, with an SSH server for multi-node jobs", default=True
        ),
    ),
)
