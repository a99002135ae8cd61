"""PyTorch and nvtx: settings, script arguments, environment and downloads."""

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    by_python_package,
    select_values,
)
from gpu_profile.declared.auto_setting import AutoSetting
from gpu_profile.declared.key import Values, make_choice_key, make_text_key
from gpu_profile.pins.pin_source import PinSource, match_value
from gpu_profile.pins.resolvers import from_index

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


# Of 0.2.13 nsys 2023.2 shows no range: https://github.com/NVIDIA/NVTX/issues/126
_NVTX_VERSION = "0.2.11"
_NVTX_HASHES = (
    "d832f98e446587b41a826bc15f55bd0bdd04760b726c88d0aa340f36c9722566",
    "c1b68d2e91a828eef4b28931131e8bf15e6fb8fd9ce07279e4acf57e03e40a55",
    "fc940027d5d61830d0fe90f3ab01b8baf73a5931e5c2757e0eac10bd42195d72",
    "41fdebc5a55448c1a165e3b283b4cc64ad37882f199b5f22119370aec917bd38",
    "7f51649a377a4c105d731322816872f75fed6cafff6e627e43033e76e6241f19",
    "5d0ed9147d6403897d9424564e81b1e4a282a6fc86bfa364c6d7677a5e2878dd",
    "d843978a3f25d15ea2bd6dd7a741a7ee717d07e759dc8fb679d0a9cdeff79bef",
    "182b5a44d9f2fcdc23d5fb06836e3ea36f612c67114ab6b6f78d751d9852c444",
    "01835a894ef232575359918bb55b98821cc24cb867ca700006fb89db383114c6",
    "93717700c6bff8b220224232d5ae1c4483f911f542dda2b9efaaa46cb325d97a",
)
"""The wheels of _NVTX_VERSION on PyPI: Python 3.9 to 3.13, x86-64 and then ARM."""


def _list_arguments(values: Values) -> dict[str, str]:
    """Return the script's variables. nvtx of the default version is known by its hashes."""
    names = ["INSTALL_TORCH", "NVTX_PACKAGES", "NVTX_VERSION"]
    if values["INSTALL_TORCH"] != "base":
        names += ["TORCH_PACKAGES", "TORCH_VERSION"]
    if values["INSTALL_TORCH"] == "cpu":
        names += ["TORCH_URL"]
    arguments = select_values(values, *names)
    if not arguments["NVTX_PACKAGES"] and arguments["NVTX_VERSION"] == _NVTX_VERSION:
        hashes = " ".join(f"--hash=sha256:{known}" for known in _NVTX_HASHES)
        arguments["NVTX_PACKAGES"] = f"nvtx=={_NVTX_VERSION} {hashes}"
    return arguments


def _make_env(values: Values) -> dict[str, str]:
    """Return USE_LIBUV=0 for Debian's PyTorch.

    Debian builds it without libuv, but PyTorch uses libuv for its rendezvous by default, since 2.4,
    and then fails: https://github.com/pytorch/pytorch/pull/127957
    """
    of_distribution = values["INSTALL_TORCH"] == "cpu" and not values["TORCH_URL"]
    return {"USE_LIBUV": "0"} if of_distribution else {}


COMPONENT = Component(
    number=20,
    name="torch",
    doc="PyTorch, and the nvtx package that names ranges in a profile",
    is_enabled=lambda values: values["INSTALL_TORCH"] != "none",
    toggle="INSTALL_TORCH",
    env=_make_env,
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
            "TORCH_PACKAGES",
            "",
            "torch, numpy and what they need, by hash; the verb `lock` finds it",
        ),
        make_text_key(
            "NVTX_VERSION",
            _NVTX_VERSION,
            "nvtx package; from 0.2.12 on nsys 2023 records none of its ranges",
        ),
        make_text_key("NVTX_PACKAGES", "", "that package by hash; the verb `lock` finds it"),
    ),
    sources=(
        PinSource(
            pins=("TORCH_VERSION", "TORCH_PACKAGES"),
            is_needed=match_value("INSTALL_TORCH", "cuda"),
            resolve=from_index("TORCH_VERSION", "TORCH_PACKAGES", "torch", "numpy"),
        ),
        PinSource(
            pins=("TORCH_VERSION", "TORCH_PACKAGES"),
            is_needed=lambda values: values["INSTALL_TORCH"] == "cpu" and bool(values["TORCH_URL"]),
            resolve=from_index(
                "TORCH_VERSION", "TORCH_PACKAGES", "torch", "numpy", index="TORCH_URL"
            ),
        ),
        PinSource(
            pins=("NVTX_VERSION", "NVTX_PACKAGES"),
            resolve=from_index("NVTX_VERSION", "NVTX_PACKAGES", "nvtx", no_deps=True),
        ),
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
    installed_versions=(
        InstalledVersion(
            name="torch", command=by_python_package("torch"), setting="TORCH_VERSION", in_bases=True
        ),
        InstalledVersion(
            name="nvtx", command=by_python_package("nvtx"), setting="NVTX_VERSION", in_bases=True
        ),
    ),
    copied_first=True,
)
