"""Check settings that do not work together before a build: the rules of bases and of components.

Each rule has its reason and its source. A rule does not apply if its facts are unknown, such as
the CUDA version of a user's own base image.
"""

import re

from packaging.version import Version

from gpu_profile.components.table import COMPONENTS, list_enabled
from gpu_profile.declared.base_name import cuda_of, distribution_of
from gpu_profile.declared.rule import Facts, Rule
from gpu_profile.errors import SettingsError
from gpu_profile.settings.settings import Settings

_CUDA_NOTES = "docs.nvidia.com/cuda/cuda-toolkit-release-notes"
CUDA_FOR_ARCH = {
    80: Version("11.0"),
    86: Version("11.1"),
    87: Version("11.4"),
    89: Version("11.8"),
    90: Version("11.8"),
    100: Version("12.8"),
    101: Version("12.8"),
    103: Version("12.9"),
    110: Version("13.0"),
    120: Version("12.8"),
    121: Version("12.9"),
}
"""The first CUDA toolkit whose nvcc compiles for a compute capability."""
_CUDA_13 = Version("13")


def _arch_too_old_for_cuda(facts: Facts) -> str:
    old = [arch for arch in facts.archs if arch < 75]
    if not old or facts.cuda is None or facts.cuda < _CUDA_13:
        return ""
    return f"CUDA {facts.cuda} does not compile for sm_{old[0]}"


def _arch_too_new_for_cuda(facts: Facts) -> str:
    for arch in facts.archs:
        needed = CUDA_FOR_ARCH.get(arch)
        if facts.compiles and facts.cuda and needed and facts.cuda < needed:
            return f"CUDA {facts.cuda} does not know sm_{arch}, {needed} does"
    return ""


def _arch_removed_from_cuda(facts: Facts) -> str:
    is_removed = facts.cuda is not None and facts.cuda >= _CUDA_13 and 101 in facts.archs
    return "CUDA 13 knows sm_101 as sm_110" if facts.compiles and is_removed else ""


_BASE_RULES = (
    Rule(
        name="CUDA and old GPUs",
        find_fault=_arch_too_old_for_cuda,
        reason="CUDA 13 dropped Maxwell, Pascal and Volta",
        source=_CUDA_NOTES,
        hint="Take a BASE_IMAGE with CUDA 12, or leave it out of CUDA_ARCHS",
    ),
    Rule(
        name="CUDA and new GPUs",
        find_fault=_arch_too_new_for_cuda,
        reason="nvcc compiles only for what it knows",
        source=_CUDA_NOTES,
        hint="Take a newer BASE_IMAGE, or leave it out of CUDA_ARCHS: PTX serves newer GPUs",
    ),
    Rule(
        name="CUDA 13's new names",
        find_fault=_arch_removed_from_cuda,
        reason="compute capability 10.1 was renamed",
        source=_CUDA_NOTES,
        hint="Write 110 in CUDA_ARCHS",
    ),
)
RULES = (*(rule for component in COMPONENTS for rule in component.rules), *_BASE_RULES)
"""Every rule: those of the components in build order, then those of the base image."""


def parse_archs(text: str) -> tuple[int, ...]:
    """Return the compute capabilities of CUDA_ARCHS, written without a dot: 80,90,100."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not re.fullmatch(r"\d{2,3}[af]?", word):
            raise SettingsError(
                f"CUDA_ARCHS is {text!r}: {word!r} is not an architecture", "Use numbers: 80,90"
            )
    return tuple(int(word.rstrip("af")) for word in words)


def collect_facts(settings: Settings, *, manifest: str = "") -> Facts:
    """Return the facts of the settings.

    `manifest` is the text of the launcher's manifest, if any.
    """
    values = settings.component
    distribution = distribution_of(settings.base_image)
    enabled = list_enabled(values)
    versions = {c.name: c.version_of(values, distribution) for c in enabled}
    return Facts(
        base_image=settings.base_image,
        distribution=distribution,
        cuda=cuda_of(settings.base_image),
        archs=parse_archs(settings.cuda_archs),
        versions={name: version for name, version in versions.items() if version},
        manifest=manifest,
        compiles=any(component.compiles_cuda(values) for component in enabled),
    )


def list_broken(image_facts: Facts) -> tuple[tuple[Rule, str], ...]:
    """Return every rule that these facts break, with what is wrong."""
    messages = ((rule, rule.find_fault(image_facts)) for rule in RULES)
    return tuple((rule, what) for rule, what in messages if what)


def check_compatibility(settings: Settings, *, manifest: str = "") -> None:
    """Raise SettingsError for the first broken rule. Settings must be decided and locked."""
    for rule, what in list_broken(collect_facts(settings, manifest=manifest)):
        raise SettingsError(f"{what}: {rule.reason} ({rule.source})", rule.hint)
