"""Rule: settings that do not work together, and the facts on which a rule decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from packaging.version import Version


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Versions and choices of an image. None, empty and absent mean unknown.

    `base_image` is BASE_IMAGE: `ubuntu:24.04`; `distribution` and `cuda` are what its name says.
    `versions` holds what the components' `version_of` return, by the component's name:
    {"efa": Version("1.50.0")}. `archs` are the compute capabilities of CUDA_ARCHS: (80, 90).
    `compiles`: the build compiles CUDA code for them. `manifest` is the text of the launcher's
    manifest, if it has one.
    """

    base_image: str = ""
    distribution: str = ""
    cuda: Version | None = None
    archs: tuple[int, ...] = ()
    versions: Mapping[str, Version] = field(default_factory=dict)
    manifest: str = ""
    compiles: bool = False


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule. `find_fault` returns what is wrong with the facts, or "" if the rule holds."""

    name: str
    find_fault: Callable[[Facts], str]
    reason: str
    source: str
    hint: str
