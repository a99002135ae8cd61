"""PyTorch and nvtx: settings, script arguments, environment and downloads."""

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    by_python_package,
    select_values,
)
from gpu_profile.components.key import Values, make_choice_key, make_text_key
from gpu_profile.image.auto_setting import AutoSetting
from gpu_profile.lock.pin_source import PinSource
from gpu_profile.lock.resolvers import from_index

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def _list_arguments(values: Values) -> dict[str, str]:
    names = ["INSTALL_TORCH", "NVTX_VERSION"]
    if values["INSTALL_TORCH"] != "base":
        names += ["TORCH_VERSION"]
    if values["INSTALL_TORCH"] == "cpu":
        names += ["TORCH_URL"]
    return select_values(values, *names)


def _is_of_index(values: Values) -> bool:
    """Return whether torch is a wheel of a package index, not the distribution's or the base's."""
    return values["INSTALL_TORCH"] == "cuda" or (
        values["INSTALL_TORCH"] == "cpu" and bool(values["TORCH_URL"])
    )


def _torch_env(values: Values) -> dict[str, str]:
    """Return USE_LIBUV=0 for Debian's PyTorch.

    Debian builds it without libuv, but PyTorch uses libuv for its rendezvous by default and then
    fails.
    """
    of_distribution = values["INSTALL_TORCH"] == "cpu" and not values["TORCH_URL"]
    return {"USE_LIBUV": "0"} if of_distribution else {}


COMPONENT = Component(
    number=20,
    name="torch",
    doc="PyTorch, and the nvtx package that names ranges in a profile",
    enabled=lambda values: values["INSTALL_TORCH"] != "none",
    toggle="INSTALL_TORCH",
    env=_torch_env,
    args=_list_arguments,
    keys=(
        make_choice_key(
            "INSTALL_TORCH",
            ("auto", "cuda", "cpu", "base", "none"),
            "PyTorch's CUDA build, its CPU build, the base image's own, or none; auto is cuda "
            "where the engine has GPUs, otherwise cpu",
        ),
        make_text_key(
            "TORCH_VERSION", "", "torch version in the package index; empty is the newest"
        ),
        make_text_key(
            "TORCH_URL",
            "auto",
            "package index of CPU builds; auto is PyTorch's own where it answers, otherwise the "
            "distribution's python3-torch; empty is the latter",
        ),
        make_text_key(
            "NVTX_VERSION",
            "0.2.11",
            "nvtx package; from 0.2.12 on nsys 2023 records none of its ranges",
        ),
    ),
    sources=(
        PinSource(
            pins=("TORCH_VERSION",),
            when=_is_of_index,
            resolve=from_index("torch", "TORCH_VERSION", "TORCH_URL"),
        ),
        PinSource(pins=("NVTX_VERSION",), resolve=from_index("nvtx", "NVTX_VERSION")),
    ),
    automatic=(
        AutoSetting(
            key="INSTALL_TORCH",
            why="cuda where the engine has GPUs, otherwise cpu",
            choose=lambda answers, _: "cuda" if answers.gpus else "cpu",
        ),
        AutoSetting(
            key="TORCH_URL",
            why="PyTorch's index where it answers, otherwise the distribution's package",
            url=lambda _: TORCH_CPU_INDEX,
            choose=lambda answers, _: TORCH_CPU_INDEX if TORCH_CPU_INDEX in answers.urls else "",
        ),
    ),
    installed=(
        InstalledVersion(name="torch", command=by_python_package("torch"), setting="TORCH_VERSION"),
        InstalledVersion(name="nvtx", command=by_python_package("nvtx"), setting="NVTX_VERSION"),
    ),
    copied_first=True,
)
