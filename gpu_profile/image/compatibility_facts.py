"""The facts on which the rules of compatibility.py decide, read from settings."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from gpu_profile.components.key import Values
from gpu_profile.components.table import list_enabled
from gpu_profile.errors import SettingsError
from gpu_profile.settings.settings import Settings

Version: TypeAlias = tuple[int, ...]
_UBUNTU_CODENAMES = {"focal": "20.04", "jammy": "22.04", "noble": "24.04"}
_DEBIAN_CODENAMES = {"bullseye": "11", "bookworm": "12", "trixie": "13"}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Versions and choices. None, empty and 0 mean unknown or absent.

    `efa` is set if AWS's installer is used, `nsys` if NVIDIA's package is. `compiles`: the build
    compiles CUDA code for `archs`.
    """

    distribution: str = ""
    cuda: Version | None = None
    archs: tuple[int, ...] = ()
    efa: Version | None = None
    nsys: Version | None = None
    open_mpi: int = 0
    launcher: str = ""
    manifest: str = ""
    compiles: bool = False


def parse_version(text: str) -> Version | None:
    return tuple(int(n) for n in re.findall(r"\d+", text)) or None


def format_version(version: Version) -> str:
    return ".".join(map(str, version))


def distribution_of(image: str) -> str:
    """Return `ubuntu22.04` or `debian13` from an image's name; empty if the name has none."""
    if image == "embedded" or image.startswith("gpu-profile-base:"):
        return "debian13"
    if match := re.search(r"ubuntu[:-]?(\d\d\.\d\d)|debian[:-]?(\d\d)", image):
        return f"ubuntu{match[1]}" if match[1] else f"debian{match[2]}"
    for codename, number in (_UBUNTU_CODENAMES | _DEBIAN_CODENAMES).items():
        if codename in image:
            return f"{'ubuntu' if '.' in number else 'debian'}{number}"
    return ""


def cuda_of(image: str) -> Version | None:
    """Return the CUDA version in the name of one of NVIDIA's CUDA images."""
    match = re.search(r"(?:/cuda:|[-/]cuda|\bcuda:)(\d+)\.(\d+)", image)
    return (int(match[1]), int(match[2])) if match else None


def parse_archs(text: str) -> tuple[int, ...]:
    """Return the compute capabilities of CUDA_ARCHS, written without a dot: 80,90,100."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not re.fullmatch(r"\d{2,3}[af]?", word):
            raise SettingsError(
                f"CUDA_ARCHS is {text!r}: {word!r} is no architecture", "Use numbers, as in 80,90"
            )
    return tuple(int(word.rstrip("af")) for word in words)


def _open_mpi(distribution: str, values: Values) -> int:
    """Return the image's major version of Open MPI. AWS's installer brings 4.1 beside 5."""
    if not values.get("INSTALL_MPI"):
        return 0
    if values.get("INSTALL_EFA") and values.get("EFA_SOURCE") == "installer":
        return 4
    return 5 if distribution == "debian13" else 4


def collect_facts(settings: Settings, *, manifest: str = "") -> Facts:
    """Return the facts of the settings.

    `manifest` is the text of the launcher's manifest, if any.
    """
    values = settings.component
    names = {component.name for component in list_enabled(values)}
    distribution = distribution_of(settings.base_image)
    efa = "efa" in names and values.get("EFA_SOURCE") == "installer"
    nvidia = values.get("NSYS_SOURCE") == "nvidia"
    return Facts(
        distribution=distribution,
        cuda=cuda_of(settings.base_image),
        archs=parse_archs(settings.cuda_archs),
        efa=parse_version(str(values["EFA_VERSION"])) if efa else None,
        nsys=parse_version(str(values["NSYS_VERSION"])) if nvidia else None,
        open_mpi=_open_mpi(distribution, values),
        launcher=settings.launcher,
        manifest=manifest,
        compiles="nccl-tests" in names or ("nccl" in names and values["NCCL_SOURCE"] == "source"),
    )
