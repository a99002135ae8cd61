"""The components that an image can hold, in build order, and what they need of each other.

A new component takes one file in this folder, one row here, and a script
`Container-Root/setup.d/NN-name.sh`.
"""

from dataclasses import dataclass

from gpu_profile.components.component import Component
from gpu_profile.components.efa import EFA
from gpu_profile.components.gdrcopy import GDRCOPY
from gpu_profile.components.key import Key, Value, Values
from gpu_profile.components.mpi import MPI, mpi_source
from gpu_profile.components.nccl import NCCL
from gpu_profile.components.nccl_tests import NCCL_TESTS
from gpu_profile.components.nsys import NSYS
from gpu_profile.components.torch import TORCH

ROWS: tuple[Component, ...] = (NSYS, TORCH, MPI, EFA, NCCL, GDRCOPY, NCCL_TESTS)
"""The components in build order: later ones may need earlier ones."""


__all__ = [
    "COMPONENTS",
    "Component",
    "Key",
    "Needed",
    "list_enabled",
    "missing_requirements",
    "mpi_source",
]

COMPONENTS = ROWS
"""The rows, in build order: later ones may need earlier ones."""


@dataclass(frozen=True, kw_only=True)
class Needed:
    """A toggle to set, and the reason."""

    key: str
    value: Value
    reason: str


def list_enabled(values: Values) -> tuple[Component, ...]:
    """Return the components that the settings enable, in build order."""
    return tuple(component for component in COMPONENTS if component.enabled(values))


def missing_requirements(values: Values) -> tuple[Needed, ...]:
    """Return what to enable so that every enabled component works; empty if nothing is missing."""
    values_left = dict(values)
    needed: list[Needed] = []
    for component in reversed(COMPONENTS):  # in reverse: later components need earlier ones
        for requirement in component.requires if component.enabled(values_left) else ():
            if not any(values_left[key] for key in requirement.any_of):
                key = requirement.any_of[0]
                values_left[key] = True
                needed.append(Needed(key=key, value=True, reason=requirement.reason))
    return tuple(needed)
