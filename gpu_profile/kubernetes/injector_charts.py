"""NVIDIA's injectors: their helm charts, and the labels that enable injection."""

from dataclasses import dataclass

from gpu_profile.errors import find_row

_NGC = "https://helm.ngc.nvidia.com/nvidia/devtools/charts"
INJECTED = "injected"
"""The directory of injected reports, below the pods' directory for reports."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One injector. `label` is the key and value that enable it on a namespace or a pod.

    `prefix` stands before its placeholders in names of reports: `{NVDT_UID}`.
    """

    name: str
    chart: str
    release: str
    label: tuple[str, str]
    prefix: str = ""


GENERATIONS: tuple[Generation, ...] = (
    Generation(
        name="devtools",
        chart=f"{_NGC}/devtools-sidecar-injector-1.0.7.tgz",
        release="devtools-sidecar-injector",
        label=("nvidia-devtools-sidecar-injector", "enabled"),
    ),
    Generation(
        name="operator",
        chart=f"{_NGC}/nsight-operator-26.2.2.tgz",
        release="nsight-operator",
        label=("nvidia-nsight-profile", "enabled"),
        prefix="NVDT_",
    ),
)
_BY_NAME = {generation.name: generation for generation in GENERATIONS}


def find_generation(name: str) -> Generation:
    return find_row(_BY_NAME, name, "injector")
