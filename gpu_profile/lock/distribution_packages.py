"""The distribution's packages of an image: recorded in the lock, preferred and compared by builds.

apt takes the recorded version wherever the mirror still has it. Debian's mirrors drop old versions:
a build whose packages differ from the lock's fails and names them.
"""

import json
from collections.abc import Mapping

from gpu_profile.errors import GateError, ReportError
from gpu_profile.lock.file import NAME, Lock, LockPart

SECTION, _KEY = "distribution", "DISTRIBUTION_PACKAGES"
_SHOWN = 3
# Above 990 a version comes before newer ones; from 1000 on apt would also downgrade what the base
# image has: https://manpages.debian.org/apt_preferences.5
_PRIORITY = 999


def record_packages(manifest: str) -> Lock:
    """Return the lock's section for the text of an image's manifest."""
    packages = sorted(_parse_packages(manifest).items())
    return {SECTION: LockPart({}, {_KEY: " ".join(f"{name}={v}" for name, v in packages)})}


def _parse_packages(manifest: str) -> dict[str, str]:
    try:
        rows = json.loads(manifest)["packages"]
        return {str(name): str(version) for name, version in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"this is not a manifest: {error!r}", "Build the image anew") from error


def _list_recorded(lock: Lock) -> dict[str, str]:
    recorded = lock.get(SECTION, LockPart()).pinned.get(_KEY, "")
    return dict(word.split("=", 1) for word in recorded.split())


def render_preferences(lock: Lock) -> str:
    """Return apt preferences that choose the lock's versions; empty without a record.

    Example of an entry: `Package: bash`, `Pin: version 5.2.37-2+b10`, `Pin-Priority: 999`.
    """
    entries = [
        f"Package: {name}\nPin: version {version}\nPin-Priority: {_PRIORITY}\n"
        for name, version in _list_recorded(lock).items()
    ]
    return "\n".join(entries)


def list_package_differences(manifest: str, lock: Lock) -> tuple[str, ...]:
    """Return one line for each package that is not as the lock has it; none without a record."""
    before = _list_recorded(lock)
    return tuple(_compare(before, _parse_packages(manifest))) if before else ()


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = sorted({*before, *now})
    return [
        f"{name} is {now.get(name, 'absent')}, was {before.get(name, 'absent')}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def check_packages(name: str, manifest: str, lock: Lock) -> None:
    """Raise GateError (exit 8) with the packages of image `name` that differ from the lock's."""
    lines = list_package_differences(manifest, lock)
    if lines:
        more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise GateError(
            f"{name} is built, and its packages are not those of {NAME}:"
            f" {'; '.join(lines[:_SHOWN])}{more}",
            "`invoke lock` takes them; a mirror of the lock's day, such as snapshot.debian.org, has"
            " the old ones",
        )
