"""nccl-tests: settings, needs, script arguments and downloads."""

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    Requirement,
    list_source_keys,
    select_values,
)
from gpu_profile.components.mpi import mpi_source
from gpu_profile.declared.key import make_switch_key, make_text_key
from gpu_profile.pins.pin_source import PinSource, make_tree_sources
from gpu_profile.pins.resolvers import cuda_wheels, has_cuda_wheels

COMPONENT = Component(
    number=70,
    name="nccl-tests",
    doc="NVIDIA's nccl-tests: bandwidth and correctness of collectives",
    is_enabled=lambda values: bool(values["INSTALL_TESTS"]),
    toggle="INSTALL_TESTS",
    needs=("efa", "nccl"),
    args=lambda values: {
        "MPI_SOURCE": mpi_source(values),
        **select_values(
            values,
            *("CUDA_ARCHS", "CUDA_VERSION", "NCCL_TESTS_PACKAGES"),
            *list_source_keys("NCCL_TESTS"),
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
        make_text_key(
            "NCCL_TESTS_PACKAGES", "", "NVIDIA's wheels of nvcc by hash; the verb `lock` finds it"
        ),
    ),
    requires=(
        Requirement(
            any_of=("INSTALL_MPI", "INSTALL_EFA"),
            reason="INSTALL_TESTS needs an MPI to start its ranks: INSTALL_MPI or INSTALL_EFA",
        ),
    ),
    sources=(
        *make_tree_sources("NCCL_TESTS"),
        PinSource(
            pins=("NCCL_TESTS_PACKAGES",),
            is_needed=has_cuda_wheels,
            resolve=cuda_wheels("NCCL_TESTS_PACKAGES"),
        ),
    ),
    installed_versions=(
        InstalledVersion(
            name="nccl-tests",
            command="cat /opt/nccl-tests/version",
            setting="NCCL_TESTS_VERSION",
        ),
    ),
    compiles_cuda=lambda _: True,
)
