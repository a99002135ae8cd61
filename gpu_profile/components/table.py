"""The components that an image can hold, in build order, and what they need of each other.

A component is a file of this folder with a constant `COMPONENT`, and the script
`Container-Root/setup.d/NN-name.sh`. No list names it.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_profile import components
from gpu_profile.components.component import Component
from gpu_profile.declared.key import Value, Values


def _find_components() -> Iterator[Component]:
    for module in pkgutil.iter_modules(components.__path__, f"{components.__name__}."):
        component = getattr(importlib.import_module(module.name), "COMPONENT", None)
        if isinstance(component, Component):
            yield component


COMPONENTS = tuple(sorted(_find_components(), key=lambda component: component.number))
"""All components in build order: later ones may need earlier ones."""


@dataclass(frozen=True, kw_only=True)
class Needed:
    """A toggle to set, and the reason."""

    key: str
    value: Value
    reason: str


def list_enabled(values: Values) -> tuple[Component, ...]:
    """Return the components that the settings enable, in build order."""
    return tuple(component for component in COMPONENTS if component.is_enabled(values))


def missing_requirements(values: Values) -> tuple[Needed, ...]:
    """Return what to enable so that every enabled component works; empty if nothing is missing."""
    values_left = dict(values)
    needed: list[Needed] = []
    for component in reversed(COMPONENTS):  # in reverse: later components need earlier ones
        for requirement in component.requires if component.is_enabled(values_left) else ():
            if not any(values_left[key] for key in requirement.any_of):
                key = requirement.any_of[0]
                values_left[key] = True
                needed.append(Needed(key=key, value=True, reason=requirement.reason))
    return tuple(needed)
