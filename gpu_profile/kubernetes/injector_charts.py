"""NVIDIA's injectors: their charts, and the label that asks for injection."""

from dataclasses import dataclass

from gpu_profile.errors import SettingsError

_NGC = "https://helm.ngc.nvidia.com/nvidia/devtools/charts"
INJECTED = "injected"
"""The directory of injected reports, below the pods' own for reports."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """`label`: the key and value, on a namespace or a pod, that asks for injection."""

    name: str
    chart: str
    release: str
    label: tuple[str, str]


GENERATIONS: tuple[Generation, ...] = (
    Generation(
        name="devtools",
        chart=f"{_NGC}/devtools-sidecar-injector-1.0.0.tgz",
        release="devtools-sidecar-injector",
        label=("nvidia-devtools-sidecar-injector", "enabled"),
    ),
    Generation(
        name="operator",
        chart=f"{_NGC}/nsight-operator-26.2.2.tgz",
        release="nsight-operator",
        label=("nvidia-nsight-profile", "enabled"),
    ),
)
_BY_NAME = {generation.name: generation for generation in GENERATIONS}


def find_generation(name: str) -> Generation:
    row = _BY_NAME.get(name)
    if row is None:
        raise SettingsError(f"no injector {name!r}", f"Use one of {', '.join(_BY_NAME)}")
    return row
