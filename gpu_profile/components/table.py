"""What an image can hold: one row a component, and what the rows need of each other.

A row of component_rows.py is all that a new component takes, beside its script
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
"""In build order: the later ones may need the earlier ones."""


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
"""In build order: the later ones may need the earlier ones."""


@dataclass(frozen=True, kw_only=True)
class Needed:
    """A toggle to set, and why."""

    key: str
    value: Value
    reason: str


def list_enabled(values: Values) -> tuple[Component, ...]:
    """The components that these settings ask for, in build order."""
    return tuple(component for component in COMPONENTS if component.enabled(values))


def missing_requirements(values: Values) -> tuple[Needed, ...]:
    """What to enable so that every enabled component works; nothing where all do already."""
    values_left = dict(values)
    needed: list[Needed] = []
    for component in reversed(COMPONENTS):  # the later ones need the earlier ones
        for requirement in component.requires if component.enabled(values_left) else ():
            if not any(values_left[key] for key in requirement.any_of):
                key = requirement.any_of[0]
                values_left[key] = True
                needed.append(Needed(key=key, value=True, reason=requirement.reason))
    return tuple(needed)
