"""The distribution's packages of a finished image: recorded in the lock, compared after a build.

apt installs what its mirror has today, and Debian's mirrors drop old versions, so an old version
cannot be asked for. A build whose packages differ from the lock's fails and names them instead.
"""

import json
from collections.abc import Mapping

from gpu_profile.errors import GateError, ReportError
from gpu_profile.lock.file import NAME, Lock, LockPart

SECTION, _KEY = "distribution", "DISTRIBUTION_PACKAGES"
_SHOWN = 3


def record_packages(manifest: str) -> Lock:
    """Return the lock's section for the text of an image's manifest."""
    packages = sorted(_parse_packages(manifest).items())
    return {SECTION: LockPart({}, {_KEY: " ".join(f"{name}={v}" for name, v in packages)})}


def _parse_packages(manifest: str) -> dict[str, str]:
    try:
        rows = json.loads(manifest)["packages"]
        return {str(name): str(version) for name, version in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"this is no manifest: {error!r}", "Build the image anew") from error


def list_package_differences(manifest: str, lock: Lock) -> tuple[str, ...]:
    """Return one line for each package that is not as the lock has it; none without a record."""
    recorded = lock.get(SECTION, LockPart()).pinned.get(_KEY, "")
    if not recorded:
        return ()
    before = dict(word.split("=", 1) for word in recorded.split())
    return tuple(_compare(before, _parse_packages(manifest)))


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
