"""Component, one row of the table in table.py: a part of the image such as NCCL or Open MPI."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpu_profile.components.key import Key, Values, as_text


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """A component that needs one of these toggles; the first one is suggested."""

    any_of: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Component:
    """One stage of the image, made by `setup.d/<number>-<name>.sh` from these keys alone.

    `needs`: components whose files the script reads during the build. `env`: variables of the
    image. `args`: variables of the script, by default the component's keys.
    """

    number: int
    name: str
    doc: str
    enabled: Callable[[Values], bool]
    toggle: str = ""
    keys: tuple[Key, ...] = ()
    requires: tuple[Requirement, ...] = ()
    needs: tuple[str, ...] = ()
    env: Callable[[Values], Mapping[str, str]] = lambda _: {}
    args: Callable[[Values], Mapping[str, str]] | None = None

    @property
    def script(self) -> str:
        return f"{self.number:02d}-{self.name}.sh"


def list_arguments(component: Component, values: Values) -> dict[str, str]:
    """Return the environment of the component's script, sorted by name."""
    if component.args is not None:
        return dict(sorted(component.args(values).items()))
    names = sorted(key.name for key in component.keys)
    return {name: as_text(values[name]) for name in names}


_OF_A_SOURCE = ("COMMIT", "SHA256", "URL", "VERSION")


def _select_source_keys(values: Values, *names: str) -> dict[str, str]:
    """Return the values that the chosen source reads.

    Other sources' settings are left out, so that changing them does not rebuild the component.
    """
    return {name: as_text(values[name]) for name in names}
