"""NCCL: settings and script arguments."""

from gpu_profile.components.component import Component, _select_source_keys
from gpu_profile.components.key import make_choice_key, make_text_key

NCCL = Component(
    number=50,
    name="nccl",
    doc="NCCL for programs that bring none of their own, nccl-tests first",
    enabled=lambda values: bool(values["INSTALL_TESTS"]) and values["NCCL_SOURCE"] != "base",
    args=lambda values: _select_source_keys(
        values,
        *("NCCL_SOURCE", "NCCL_VERSION"),
        *(("CUDA_VERSION",) * (values["NCCL_SOURCE"] in {"pypi", "source"})),
        *(("NCCL_URL", "NCCL_COMMIT", "NCCL_SHA256") * (values["NCCL_SOURCE"] == "source")),
        *(("CUDA_ARCHS",) * (values["NCCL_SOURCE"] == "source")),
    ),
    keys=(
        make_choice_key(
            "NCCL_SOURCE",
            ("auto", "base", "pypi", "apt", "source"),
            "NCCL of the base image, of the package index, of apt, or compiled; auto is the base "
            "image's, and on the embedded base the package index's",
        ),
        make_text_key(
            "NCCL_VERSION", "2.30.7", "NCCL version; of a source its tag is v<version>-1"
        ),
        make_text_key(
            "NCCL_URL", "https://github.com/NVIDIA/nccl", "NCCL's repository, or an archive"
        ),
        make_text_key("NCCL_COMMIT", "", "commit of that tag"),
        make_text_key("NCCL_SHA256", "", "sha256, where NCCL_URL is an archive"),
        make_text_key(
            "CUDA_VERSION", "13.0", "CUDA to compile with, where the base image has no nvcc"
        ),
    ),
)
