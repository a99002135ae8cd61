"""Component: a part of the image such as NCCL or Open MPI, whole in one file of this folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from packaging.version import Version

from gpu_profile.declared.auto_setting import AutoSetting
from gpu_profile.declared.key import Key, Values, as_text
from gpu_profile.declared.rule import Rule
from gpu_profile.pins.pin_source import PinSource


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """A component that needs one of these toggles; the first one is suggested."""

    any_of: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class InstalledVersion:
    """How the version of a program in the image is read, for /etc/gpu-profile/manifest.json.

    `command` is a line of sh; the first version number that it prints counts, as in `nsys
    --version`. Nothing printed means not installed. `setting` is the key that pins the version.
    `in_bases`: base images bring this program too, so every image is asked for it, not only one
    with the component.
    """

    name: str
    command: str
    setting: str = ""
    in_bases: bool = False


@dataclass(frozen=True, kw_only=True)
class Component:
    """One stage of the image, made by `setup.d/<number>-<name>.sh` from these keys alone.

    - `is_enabled`: whether the image has it; `toggle`: the setting that switches it.
    - `keys`: its settings. `args`: variables of the script, by default the keys.
    - `requires`: other components' toggles; `needs`: components whose files the script reads.
    - `env`: variables of the image.
    - `sources`: its downloads, and how `invoke lock` finds their versions and checksums.
    - `automatic`: the settings that may be `auto`.
    - `installed_versions`: how the versions in a finished image are read.
    - `version_of`: the version that (settings, distribution of the base) will install, for rules.
    - `rules`: what it does not work with. `compiles_cuda`: whether its script runs nvcc.
    - `copied_first`: its files are the largest, so their layer comes first.
    - `secrets`: ids of files that the build hands to its script, below /run/secrets.
    """

    number: int
    name: str
    doc: str
    is_enabled: Callable[[Values], bool]
    toggle: str = ""
    keys: tuple[Key, ...] = ()
    args: Callable[[Values], Mapping[str, str]] | None = None
    requires: tuple[Requirement, ...] = ()
    needs: tuple[str, ...] = ()
    env: Callable[[Values], Mapping[str, str]] = lambda _: {}
    sources: tuple[PinSource, ...] = ()
    automatic: tuple[AutoSetting, ...] = ()
    installed_versions: tuple[InstalledVersion, ...] = ()
    version_of: Callable[[Values, str], Version | None] = lambda _values, _distribution: None
    rules: tuple[Rule, ...] = ()
    compiles_cuda: Callable[[Values], bool] = lambda _: False
    copied_first: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        return f"{self.number:02d}-{self.name}.sh"


def list_arguments(component: Component, values: Values) -> dict[str, str]:
    """Return the environment of the component's script, sorted by name."""
    if component.args is not None:
        return dict(sorted(component.args(values).items()))
    return select_values(values, *sorted(key.name for key in component.keys))


def select_values(values: Values, *names: str) -> dict[str, str]:
    """Return these settings as text, for `args` of a component with several sources.

    Settings of sources that are not chosen are left out, so that changing them does not rebuild
    the component.
    """
    return {name: as_text(values[name]) for name in names}


def list_source_keys(prefix: str) -> tuple[str, ...]:
    """Return the settings of a program that is compiled: NCCL_COMMIT, NCCL_SHA256, …"""
    return tuple(f"{prefix}_{name}" for name in ("COMMIT", "SHA256", "URL", "VERSION"))


def by_python_package(package: str) -> str:
    """Return the command that prints the version of a Python package, for InstalledVersion."""
    return f"python3 -c \"from importlib.metadata import version; print(version('{package}'))\""
