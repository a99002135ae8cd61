"""What a component of the image is: a row of the table in components.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpu_profile.components.key import Key, Values, as_text


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """The component does not work without one of these toggles; the first is the one to enable."""

    any_of: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Component:
    """One stage of the image, made by `setup.d/<number>-<name>.sh` from its keys alone.

    `needs` are the components whose files its script reads while it builds; `env` is what the
    image's environment gains; `args` is what the script is given, its keys where not said.
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
    """What the component's script gets in its environment, sorted."""
    if component.args is not None:
        return dict(sorted(component.args(values).items()))
    names = sorted(key.name for key in component.keys)
    return {name: as_text(values[name]) for name in names}


_OF_A_SOURCE = ("COMMIT", "SHA256", "URL", "VERSION")


def _select_source_keys(values: Values, *names: str) -> dict[str, str]:
    """Only what the chosen source reads: another's settings must not rebuild this one."""
    return {name: as_text(values[name]) for name in names}
