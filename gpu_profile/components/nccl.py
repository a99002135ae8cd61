"""NCCL: settings, script arguments and downloads."""

from gpu_profile.components.component import Component, InstalledVersion, select_values
from gpu_profile.declared.auto_setting import AutoSetting
from gpu_profile.declared.base_name import is_embedded
from gpu_profile.declared.key import Values, make_choice_key, make_text_key
from gpu_profile.pins.pin_source import PinSource, make_tree_sources, match_value
from gpu_profile.pins.resolvers import (
    Pins,
    Tools,
    as_given,
    cuda_wheels,
    from_index,
    has_cuda_wheels,
)

_PRINT_VERSION = (
    "for home in /opt/nccl /usr /usr/local/cuda; do [ ! -e $home/include/nccl.h ] ||"
    r" { sed -nE 's/#define NCCL_(MAJOR|MINOR|PATCH) ([0-9]+).*/\2/p' $home/include/nccl.h |"
    " head -n 3 | paste -sd .; break; }; done"
)


def _list_arguments(values: Values) -> dict[str, str]:
    names = ["NCCL_SOURCE", "NCCL_VERSION"]
    if values["NCCL_SOURCE"] in {"pypi", "source"}:
        names += ["CUDA_VERSION", "NCCL_PACKAGES"]
    if values["NCCL_SOURCE"] == "source":
        names += ["NCCL_URL", "NCCL_COMMIT", "NCCL_SHA256", "CUDA_ARCHS"]
    return select_values(values, *names)


def _resolve_wheels(values: Values, tools: Tools) -> Pins:
    """Return the wheels of NCCL, such as nvidia-nccl-cu13 for CUDA 13.0, and of CUDA's runtime."""
    cuda = str(values["CUDA_VERSION"])
    name = f"nvidia-nccl-cu{cuda.partition('.')[0]}"
    runtime = f"nvidia-cuda-runtime=={cuda}.*"
    return from_index("NCCL_VERSION", "NCCL_PACKAGES", name, runtime, no_deps=True)(values, tools)


COMPONENT = Component(
    number=50,
    name="nccl",
    doc="NCCL for programs that bring none of their own, nccl-tests first",
    is_enabled=lambda values: bool(values["INSTALL_TESTS"]) and values["NCCL_SOURCE"] != "base",
    args=_list_arguments,
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
            "NCCL_PACKAGES",
            "",
            "NVIDIA's wheels by hash, of NCCL or nvcc; the verb `lock` finds it",
        ),
        make_text_key(
            "CUDA_VERSION", "13.0", "CUDA to compile with, where the base image has no nvcc"
        ),
    ),
    sources=(
        PinSource(
            pins=("NCCL_VERSION", "NCCL_PACKAGES"),
            is_needed=match_value("NCCL_SOURCE", "pypi"),
            resolve=_resolve_wheels,
        ),
        PinSource(
            pins=("NCCL_VERSION",),
            is_needed=match_value("NCCL_SOURCE", "apt"),
            resolve=as_given,
        ),
        PinSource(
            pins=("NCCL_PACKAGES",),
            is_needed=lambda values: values["NCCL_SOURCE"] == "source" and has_cuda_wheels(values),
            resolve=cuda_wheels("NCCL_PACKAGES"),
        ),
        *make_tree_sources("NCCL", match_value("NCCL_SOURCE", "source")),
    ),
    automatic=(
        AutoSetting(
            key="NCCL_SOURCE",
            why="the base image's, and on the embedded base the package index's",
            choose=lambda answers, _: "pypi" if is_embedded(answers.base_image) else "base",
            follows_base=True,
        ),
    ),
    installed_versions=(
        InstalledVersion(
            name="nccl", command=_PRINT_VERSION, setting="NCCL_VERSION", in_bases=True
        ),
    ),
    compiles_cuda=lambda values: values["NCCL_SOURCE"] == "source",
)
