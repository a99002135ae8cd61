"""nccl-tests: settings, needs and script arguments."""

from gpu_profile.components.component import (
    _OF_A_SOURCE,
    Component,
    Requirement,
    _select_source_keys,
)
from gpu_profile.components.key import make_switch_key, make_text_key
from gpu_profile.components.mpi import mpi_source

NCCL_TESTS = Component(
    number=70,
    name="nccl-tests",
    doc="NVIDIA's nccl-tests: bandwidth and correctness of collectives",
    enabled=lambda values: bool(values["INSTALL_TESTS"]),
    toggle="INSTALL_TESTS",
    needs=("efa", "nccl"),
    args=lambda values: {
        "MPI_SOURCE": mpi_source(values),
        **_select_source_keys(
            values,
            *("CUDA_ARCHS", "CUDA_VERSION"),
            *(f"NCCL_TESTS_{name}" for name in _OF_A_SOURCE),
        ),
    },
    keys=(
        make_switch_key("INSTALL_TESTS", "nccl-tests", default=False),
        make_text_key("NCCL_TESTS_VERSION", "v2.19.6", "tag of nccl-tests"),
        make_text_key(
            "NCCL_TESTS_URL",
            "https://github.com/NVIDIA/nccl-tests",
            "nccl-tests' repository, an archive of it, or a checkout's directory",
        ),
        make_text_key(
            "NCCL_TESTS_COMMIT", "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432", "commit of that tag"
        ),
        make_text_key("NCCL_TESTS_SHA256", "", "sha256, where NCCL_TESTS_URL is an archive"),
    ),
    requires=(
        Requirement(
            any_of=("INSTALL_MPI", "INSTALL_EFA"),
            reason="INSTALL_TESTS needs an MPI to start its ranks: INSTALL_MPI or INSTALL_EFA",
        ),
    ),
)
