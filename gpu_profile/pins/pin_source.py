"""PinSource: a download of the image, the settings that pin it, and what finds its pins.

None of these settings may be empty or `latest` in a locked build. apt checks files by its own
signed index.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpu_profile.declared.key import Values
from gpu_profile.pins.resolvers import LATEST, Pins, Tools, is_archive, is_checkout, source_tree


def match_always(_: Values) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class PinSource:
    """A download: the settings that pin it, when it is used, and what finds its pins.

    For example pins=("NSYS_VERSION", "NSYS_SHA256"), used if NSYS_SOURCE is `nvidia`.
    """

    pins: tuple[str, ...]
    resolve: Callable[[Values, Tools], Pins]
    is_needed: Callable[[Values], bool] = match_always


def list_unpinned(source: PinSource, values: Values) -> tuple[str, ...]:
    """Return the pins that are not exact yet. A local checkout needs none for its source."""
    return tuple(
        pin
        for pin in source.pins
        if values.get(pin, "") in ("", LATEST) and not _is_of_checkout(pin, values)
    )


def _is_of_checkout(pin: str, values: Values) -> bool:
    prefix, _, kind = pin.rpartition("_")
    return kind != "PACKAGES" and is_checkout(str(values.get(f"{prefix}_URL", "")))


def match_value(key: str, *choices: str) -> Callable[[Values], bool]:
    """Return a condition: the setting has one of these values."""
    return lambda values: values.get(key) in choices


def make_tree_sources(
    prefix: str, when: Callable[[Values], bool] = match_always
) -> tuple[PinSource, PinSource]:
    """Return the sources of a program that is compiled: its repository, and an archive of it.

    The settings are `<prefix>_URL`, `_VERSION`, `_COMMIT` and `_SHA256`. The URL decides which of
    the two is used.
    """

    def make_source(pins: tuple[str, ...], *, archive: bool) -> PinSource:
        def is_used(values: Values) -> bool:
            url = str(values.get(f"{prefix}_URL", ""))
            return when(values) and bool(url) and is_archive(url) == archive

        return PinSource(
            pins=tuple(f"{prefix}_{pin}" for pin in pins),
            is_needed=is_used,
            resolve=source_tree(prefix),
        )

    return make_source(("VERSION", "COMMIT"), archive=False), make_source(("SHA256",), archive=True)
