"""Elastic Fabric Adapter: settings, needs, environment."""

from gpu_profile.components.component import Component, Requirement, _select_source_keys
from gpu_profile.components.key import Values, make_choice_key, make_switch_key, make_text_key

_OPT = "/opt/amazon"


def _efa_env(values: Values) -> dict[str, str]:
    """Return the variables for NCCL and Open MPI over EFA.

    NCCL_NET_PLUGIN names the plugin, because NCCL goes on without one silently. NCCL_SOCKET_IFNAME
    excludes interfaces that reach no other node.
    """
    common = {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    if values["EFA_SOURCE"] == "distro":
        return common
    return common | {
        "NCCL_NET_PLUGIN": "ofi",
        "OMPI_MCA_pml": "^ucx",
        "OPAL_PREFIX": f"{_OPT}/openmpi",
        "PATH": f"{_OPT}/openmpi/bin:{_OPT}/efa/bin",
        "PMIX_MCA_gds": "hash",
    }


EFA = Component(
    number=40,
    name="efa",
    doc="Elastic Fabric Adapter: libfabric, and with AWS's installer Open MPI and aws-ofi-nccl",
    enabled=lambda values: bool(values["INSTALL_EFA"]),
    toggle="INSTALL_EFA",
    env=_efa_env,
    args=lambda values: _select_source_keys(
        values,
        "EFA_SOURCE",
        *(
            ("EFA_VERSION", "EFA_URL", "EFA_SHA256", "EFA_FINGERPRINT")
            * (values["EFA_SOURCE"] == "installer")
        ),
    ),
    keys=(
        make_switch_key("INSTALL_EFA", "AWS Elastic Fabric Adapter (user space)", default=False),
        make_choice_key(
            "EFA_SOURCE",
            ("installer", "distro"),
            "AWS's installer, or the distribution's libfabric where AWS is out of reach",
        ),
        make_text_key("EFA_VERSION", "1.50.0", "version of AWS's EFA installer"),
        make_text_key(
            "EFA_URL",
            "https://efa-installer.amazonaws.com",
            "where aws-efa-installer-<version>.tar.gz, its .sig and the key are",
        ),
        make_text_key(
            "EFA_SHA256",
            "fa6dff8593d866866c13cb4640d9059835cd4efa427971f100ab40c97bef2841",
            "sha256 of that archive",
        ),
        make_text_key(
            "EFA_FINGERPRINT",
            "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC",
            "fingerprint of the key that signs it, as AWS documents it",
        ),
    ),
    requires=(
        Requirement(
            any_of=("INSTALL_MPI",),
            reason="INSTALL_EFA needs INSTALL_MPI: jobs over EFA are started by mpirun over SSH",
        ),
    ),
)
