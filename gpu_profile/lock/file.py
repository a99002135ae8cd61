"""Read, write and apply gpu-profile.lock.

`asked` holds the user's settings, `pinned` the values that replace them in each build until
`invoke lock` runs again. The file is sorted text, to be committed beside .env.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gpu_profile.components.component import Component, list_arguments
from gpu_profile.components.table import list_enabled
from gpu_profile.declared.base_name import is_embedded
from gpu_profile.declared.key import Value, Values, as_text
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.image.credentials import collect_values
from gpu_profile.pins.pin_source import PinSource, list_unpinned
from gpu_profile.pins.python_packages import split_packages
from gpu_profile.pins.resolvers import Tools
from gpu_profile.redact import split_url
from gpu_profile.settings.settings import Settings

NAME = "gpu-profile.lock"
_HEAD = """\
# What the image is made of, exactly. `invoke lock` writes this file; commit it.
# asked: the settings it was made for. pinned: what builds use in their place.
"""
_BASE = "base"
_ARCHITECTURE = "ARCHITECTURE"
_LINE = re.compile(r"(?P<kind>asked|pinned) (?P<key>[A-Z][A-Z0-9_]*) =(?: (?P<value>.*))?")
_PINNED = ("_VERSION", "_URL", "_SHA256", "_COMMIT", "_PACKAGES")
_INDENT = "    "


@dataclass(frozen=True)
class LockPart:
    """The settings of one component, or of the base image."""

    settings: Mapping[str, str] = field(default_factory=dict)
    pinned: Mapping[str, str] = field(default_factory=dict)


Lock: TypeAlias = Mapping[str, LockPart]


def render_lock(lock: Lock) -> str:
    """Return the file's text. The same lock gives the same bytes."""
    blocks = [_HEAD]
    for name, part in sorted(lock.items()):
        lines = [f"[{name}]"]
        for kind, values in (("asked", part.settings), ("pinned", part.pinned)):
            for key, value in sorted(values.items()):
                lines += _format_value(kind, key, value)
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _format_value(kind: str, key: str, value: str) -> list[str]:
    """Return the lines of a value. Packages have a line each, so that a diff shows what changed."""
    head = f"{kind} {key} ="
    if key.endswith("_PACKAGES") and value:
        return [head, *(f"{_INDENT}{line}" for line in split_packages(value))]
    return [f"{head} {value}".rstrip()]


def parse_lock(text: str, where: str = NAME) -> Lock:
    """Return the parts of a lock's text.

    Raises SettingsError with the line of the first bad one.
    """
    parts: dict[str, LockPart] = {}
    values: dict[str, str] = {}
    pinned: dict[str, str] = {}
    last, key = values, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if section := re.fullmatch(r"\[([a-z][a-z0-9-]*)\]", line):
            values, pinned = {}, {}
            parts[section[1]] = LockPart(values, pinned)
            key = ""
            continue
        if line.startswith(_INDENT) and key:
            last[key] = f"{last[key]} {line.strip()}".strip()
            continue
        match = _LINE.fullmatch(line)
        if match is None or not parts:
            raise SettingsError(
                f"{where}:{number}: {line!r} is not a line of a lock", "Run `invoke lock` anew"
            )
        last, key = (values if match["kind"] == "asked" else pinned), match["key"]
        last[key] = match["value"] or ""
    return parts


def read_lock(path: Path) -> Lock:
    """Return the lock beside .env, or an empty one."""
    try:
        return parse_lock(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}", "Run `invoke lock` anew") from error


def resolve_lock(
    user_settings: Settings,
    decided: Settings,
    tools: Tools,
    digest_of: Callable[[str], str],
    show: Callable[[str], None] = lambda _: None,
) -> Lock:
    """Find every version, checksum, commit and digest on the web.

    `decided` are the `user_settings` without `auto`. `digest_of` returns the digest of an image in
    its registry.
    """
    lock = {_BASE: _resolve_base(user_settings, decided, tools, digest_of)}
    for component in list_enabled(decided.component):
        values = _without_stale(component, dict(decided.component))
        for source in _list_sources(component, values):
            show(f"{component.name}: {', '.join(source.pins)}")
            values |= {k: v for k, v in source.resolve(values, tools).items() if k in values}
        names = list_arguments(component, {**collect_values(decided), **values})
        key_names = [key.name for key in component.keys if key.name in names]
        lock[component.name] = LockPart(
            settings={name: _without_login(user_settings.component[name]) for name in key_names},
            pinned={
                name: _without_login(values[name])
                for name in key_names
                if values[name] != user_settings.component[name]
                or (values[name] and name.endswith(_PINNED))
            },
        )
    return lock


def _without_login(value: Value) -> str:
    """Return the setting's text without a URL's user and password: the lock is committed."""
    return split_url(as_text(value)).plain


def _without_stale(component: Component, values: dict[str, Value]) -> dict[str, Value]:
    """Drop a default checksum if the version is not the default one."""
    defaults = {key.name: key.default for key in component.keys}
    for name, default in defaults.items():
        prefix, _, kind = name.rpartition("_")
        version = f"{prefix}_VERSION"
        moved = values.get(version) != defaults.get(version)
        if kind in {"SHA256", "COMMIT"} and moved and values[name] == default:
            values[name] = ""
    return values


def _resolve_base(
    user_settings: Settings, decided: Settings, tools: Tools, digest_of: Callable[[str], str]
) -> LockPart:
    """Return the base image's pins, and the architecture that all pins are of.

    A base made on this machine has no digest in a registry: its recipe is part of this project.
    """
    image = decided.base_image
    if is_embedded(image):
        pinned = "embedded"
    elif "@sha256:" in image or image == "embedded":
        pinned = image
    else:
        pinned = f"{image}@{digest_of(image)}"
    settings = {"BASE_IMAGE": user_settings.base_image, _ARCHITECTURE: tools.architecture}
    return LockPart(settings, {"BASE_IMAGE": pinned})


def _list_sources(component: Component, values: Values) -> list[PinSource]:
    return [source for source in component.sources if source.is_needed(values)]


def apply_lock(settings: Settings, lock: Lock, architecture: str = "") -> Settings:
    """Return the settings with the lock's pins.

    Raises GateError if the settings have changed since, or it was made on another architecture.
    """
    differences = list_drift(settings, lock, architecture)
    if lock and differences:
        raise GateError(
            f"{NAME} is not of these settings: {differences[0]}", "Run `invoke lock` anew"
        )
    names = {_BASE, *(component.name for component in list_enabled(settings.component))}
    pinned: dict[str, str] = {}
    for name, part in lock.items():
        if name in names:
            pinned |= part.pinned
    base = pinned.pop("BASE_IMAGE", settings.base_image)
    component = {**settings.component, **pinned}
    for name, value in settings.component.items():
        if name in pinned and _without_login(value) == pinned[name]:
            component[name] = value  # with its user and password, which the lock leaves out
    return dataclasses.replace(settings, base_image=base, component=component)


def list_drift(settings: Settings, lock: Lock, architecture: str = "") -> tuple[str, ...]:
    """Return the settings that differ from those of the lock, one line each. Asks no server.

    `architecture` is the machine's, such as arm64; empty: any.
    """
    differences = []
    if _BASE in lock and lock[_BASE].settings.get("BASE_IMAGE") != settings.base_image:
        was = lock[_BASE].settings.get("BASE_IMAGE", "")
        differences.append(f"BASE_IMAGE is {settings.base_image!r}, was {was!r}")
    made_on = lock[_BASE].settings.get(_ARCHITECTURE, "") if _BASE in lock else ""
    if made_on and architecture and made_on != architecture:
        differences.append(f"the machine is {architecture}, was {made_on}")
    for component in list_enabled(settings.component):
        part = lock.get(component.name)
        if part is None:
            differences.append(f"{component.name} is not in it")
            continue
        for name, was in part.settings.items():
            value = settings.component.get(name)
            now = "" if value is None else _without_login(value)
            if now != was:
                differences.append(f"{name} is {now!r}, was {was!r}")
    return tuple(differences)


def check_lock(settings: Settings, lock: Lock, architecture: str = "") -> None:
    """Raise GateError (exit 8) with every difference, for `lock --check`."""
    if not lock:
        raise GateError(f"there is no {NAME} here", "Run `invoke lock`")
    differences = list_drift(settings, lock, architecture)
    if differences:
        raise GateError(f"{NAME} drifted: {'; '.join(differences)}", "Run `invoke lock` anew")


def refuse_unlocked(settings: Settings) -> None:
    """Raise SettingsError if a build would download anything without a version or checksum.

    The settings must be decided and have the lock applied.
    """
    for component in list_enabled(settings.component):
        arguments = list_arguments(component, collect_values(settings))
        for source in _list_sources(component, settings.component):
            missing = list_unpinned(source, {**settings.component, **arguments})
            if missing:
                raise SettingsError(
                    f"{component.name} is not locked: {' and '.join(missing)} not exact",
                    "`invoke lock` pins it; `build --unlocked` takes what is there today",
                )
