"""The rows of the table: each component's settings, needs, script arguments and environment."""

from gpu_profile.component import (
    Component,
    Requirement,
    Values,
    as_text,
    choice,
    switch,
    text,
)

_OPT = "/opt/amazon"
_OF_A_SOURCE = ("COMMIT", "SHA256", "URL", "VERSION")


def mpi_source(values: Values) -> str:
    """Exactly one MPI: AWS's where its installer runs, otherwise the distribution's."""
    by_installer = values["INSTALL_EFA"] and values["EFA_SOURCE"] == "installer"
    return "efa-installer" if by_installer else "distribution"


def _pick(values: Values, *names: str) -> dict[str, str]:
    """Only what the chosen source reads: another's settings must not rebuild this one."""
    return {name: as_text(values[name]) for name in names}


def _torch_env(values: Values) -> dict[str, str]:
    """Debian builds PyTorch without libuv, and PyTorch does not look before it uses it."""
    of_distribution = values["INSTALL_TORCH"] == "cpu" and not values["TORCH_URL"]
    return {"USE_LIBUV": "0"} if of_distribution else {}


NSYS = Component(
    number=10,
    name="nsys",
    doc="NVIDIA Nsight Systems, the profiler",
    enabled=lambda _: True,
    args=lambda values: _pick(
        values,
        "NSYS_SOURCE",
        *(("NSYS_VERSION", "NSYS_URL", "NSYS_SHA256") * (values["NSYS_SOURCE"] == "nvidia")),
    ),
    keys=(
        choice(
            "NSYS_SOURCE",
            ("auto", "nvidia", "debian", "base"),
            "nsys of NVIDIA's apt repository, of Debian's non-free section, or the base image's "
            "own; auto is nvidia where it answers, otherwise debian",
        ),
        text("NSYS_VERSION", "2026.4.1", "nsys version in NVIDIA's apt repository"),
        text(
            "NSYS_URL",
            "https://developer.download.nvidia.com/devtools/repos",
            "NVIDIA's apt repository of developer tools, or a mirror of it",
        ),
        text("NSYS_SHA256", "", "sha256 of that repository's signing key, nvidia.pub"),
    ),
)

TORCH = Component(
    number=20,
    name="torch",
    doc="PyTorch, and the nvtx package that names ranges in a profile",
    enabled=lambda values: values["INSTALL_TORCH"] != "none",
    toggle="INSTALL_TORCH",
    env=_torch_env,
    args=lambda values: _pick(
        values,
        *("INSTALL_TORCH", "NVTX_VERSION"),
        *(("TORCH_VERSION",) * (values["INSTALL_TORCH"] != "base")),
        *(("TORCH_URL",) * (values["INSTALL_TORCH"] == "cpu")),
    ),
    keys=(
        choice(
            "INSTALL_TORCH",
            ("auto", "cuda", "cpu", "base", "none"),
            "PyTorch's CUDA build, its CPU build, the base image's own, or none; auto is cuda "
            "where the engine has GPUs, otherwise cpu",
        ),
        text("TORCH_VERSION", "", "torch version in the package index; empty is the newest"),
        text(
            "TORCH_URL",
            "auto",
            "package index of CPU builds; auto is PyTorch's own where it answers, otherwise the "
            "distribution's python3-torch; empty is the latter",
        ),
        text(
            "NVTX_VERSION",
            "0.2.11",
            "nvtx package; from 0.2.12 on nsys 2023 records none of its ranges",
        ),
    ),
)

MPI = Component(
    number=30,
    name="mpi",
    doc="Open MPI, and an SSH server fit for MPIJobs",
    enabled=lambda values: bool(values["INSTALL_MPI"]),
    toggle="INSTALL_MPI",
    args=lambda values: {"MPI_SOURCE": mpi_source(values)},
    keys=(switch("INSTALL_MPI", "Open MPI, with an SSH server for multi-node jobs", default=True),),
)


def _efa_env(values: Values) -> dict[str, str]:
    """The plugin by name, or NCCL can pass it over in silence; no interface that leads nowhere."""
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
    args=lambda values: _pick(
        values,
        "EFA_SOURCE",
        *(
            ("EFA_VERSION", "EFA_URL", "EFA_SHA256", "EFA_FINGERPRINT")
            * (values["EFA_SOURCE"] == "installer")
        ),
    ),
    keys=(
        switch("INSTALL_EFA", "AWS Elastic Fabric Adapter (user space)", default=False),
        choice(
            "EFA_SOURCE",
            ("installer", "distro"),
            "AWS's installer, or the distribution's libfabric where AWS is out of reach",
        ),
        text("EFA_VERSION", "1.50.0", "version of AWS's EFA installer"),
        text(
            "EFA_URL",
            "https://efa-installer.amazonaws.com",
            "where aws-efa-installer-<version>.tar.gz, its .sig and the key are",
        ),
        text(
            "EFA_SHA256",
            "fa6dff8593d866866c13cb4640d9059835cd4efa427971f100ab40c97bef2841",
            "sha256 of that archive",
        ),
        text(
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

NCCL = Component(
    number=50,
    name="nccl",
    doc="NCCL for programs that bring none of their own, nccl-tests first",
    enabled=lambda values: bool(values["INSTALL_TESTS"]) and values["NCCL_SOURCE"] != "base",
    args=lambda values: _pick(
        values,
        *("NCCL_SOURCE", "NCCL_VERSION"),
        *(("CUDA_VERSION",) * (values["NCCL_SOURCE"] in {"pypi", "source"})),
        *(("NCCL_URL", "NCCL_COMMIT", "NCCL_SHA256") * (values["NCCL_SOURCE"] == "source")),
        *(("CUDA_ARCHS",) * (values["NCCL_SOURCE"] == "source")),
    ),
    keys=(
        choice(
            "NCCL_SOURCE",
            ("auto", "base", "pypi", "apt", "source"),
            "NCCL of the base image, of the package index, of apt, or compiled; auto is the base "
            "image's, and on the embedded base the package index's",
        ),
        text("NCCL_VERSION", "2.30.7", "NCCL version; of a source its tag is v<version>-1"),
        text("NCCL_URL", "https://github.com/NVIDIA/nccl", "NCCL's repository, or an archive"),
        text("NCCL_COMMIT", "", "commit of that tag"),
        text("NCCL_SHA256", "", "sha256, where NCCL_URL is an archive"),
        text("CUDA_VERSION", "13.0", "CUDA to compile with, where the base image has no nvcc"),
    ),
)

GDRCOPY = Component(
    number=60,
    name="gdrcopy",
    doc="GDRCopy's library: low-latency copies to GPU memory (the host has its kernel module)",
    enabled=lambda values: bool(values["INSTALL_GDRCOPY"]),
    toggle="INSTALL_GDRCOPY",
    args=lambda values: _pick(values, *(f"GDRCOPY_{name}" for name in _OF_A_SOURCE)),
    keys=(
        switch("INSTALL_GDRCOPY", "GDRCopy (user space)", default=False),
        text("GDRCOPY_VERSION", "v2.6", "tag of GDRCopy"),
        text(
            "GDRCOPY_URL",
            "https://github.com/NVIDIA/gdrcopy",
            "GDRCopy's repository, an archive of it, or a checkout's directory",
        ),
        text("GDRCOPY_COMMIT", "93c606bbcaa10457cbbab93163aa446d902b983d", "commit of that tag"),
        text("GDRCOPY_SHA256", "", "sha256, where GDRCOPY_URL is an archive"),
    ),
)

NCCL_TESTS = Component(
    number=70,
    name="nccl-tests",
    doc="NVIDIA's nccl-tests: bandwidth and correctness of collectives",
    enabled=lambda values: bool(values["INSTALL_TESTS"]),
    toggle="INSTALL_TESTS",
    needs=("efa", "nccl"),
    args=lambda values: {
        "MPI_SOURCE": mpi_source(values),
        **_pick(
            values,
            *("CUDA_ARCHS", "CUDA_VERSION"),
            *(f"NCCL_TESTS_{name}" for name in _OF_A_SOURCE),
        ),
    },
    keys=(
        switch("INSTALL_TESTS", "nccl-tests", default=False),
        text("NCCL_TESTS_VERSION", "v2.19.6", "tag of nccl-tests"),
        text(
            "NCCL_TESTS_URL",
            "https://github.com/NVIDIA/nccl-tests",
            "nccl-tests' repository, an archive of it, or a checkout's directory",
        ),
        text("NCCL_TESTS_COMMIT", "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432", "commit of that tag"),
        text("NCCL_TESTS_SHA256", "", "sha256, where NCCL_TESTS_URL is an archive"),
    ),
    requires=(
        Requirement(
            any_of=("INSTALL_MPI", "INSTALL_EFA"),
            reason="INSTALL_TESTS needs an MPI to start its ranks: INSTALL_MPI or INSTALL_EFA",
        ),
    ),
)

ROWS: tuple[Component, ...] = (NSYS, TORCH, MPI, EFA, NCCL, GDRCOPY, NCCL_TESTS)
"""In build order: the later ones may need the earlier ones."""
