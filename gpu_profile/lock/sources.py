"""Every download of the image and the settings that pin it, one row each.

None of these settings may be empty or `latest` in a locked build. apt and pip check files by their
own signed or hashed indices: only versions are pinned for them, no checksums.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpu_profile.components.key import Values
from gpu_profile.lock.resolvers import (
    LATEST,
    Pins,
    Tools,
    as_given,
    from_index,
    is_archive,
    is_checkout,
    resolve_efa,
    resolve_nsys,
    source_tree,
)


@dataclass(frozen=True, kw_only=True)
class PinSource:
    """A download: the settings that pin it, when it is used, and what finds its pins."""

    component: str
    pins: tuple[str, ...]
    when: Callable[[Values], bool]
    resolve: Callable[[Values, Tools], Pins]


def list_unpinned(source: PinSource, values: Values) -> tuple[str, ...]:
    """Return the pins that are not exact yet. A local checkout needs none."""
    if any(
        is_checkout(str(values.get(pin.rpartition("_")[0] + "_URL", ""))) for pin in source.pins
    ):
        return ()
    return tuple(pin for pin in source.pins if values.get(pin, "") in ("", LATEST))


def _match_value(key: str, *choices: str) -> Callable[[Values], bool]:
    return lambda values: values.get(key) in choices


def _with_url(key: str, *, archive: bool) -> Callable[[Values], bool]:
    return lambda values: bool(values.get(key)) and is_archive(str(values.get(key))) == archive


def _match_all(*conditions: Callable[[Values], bool]) -> Callable[[Values], bool]:
    return lambda values: all(condition(values) for condition in conditions)


def _make_tree_sources(
    component: str, prefix: str, when: Callable[[Values], bool]
) -> tuple[PinSource, PinSource]:
    def row(pins: tuple[str, ...], *, archive: bool) -> PinSource:
        return PinSource(
            component=component,
            pins=tuple(f"{prefix}_{pin}" for pin in pins),
            when=_match_all(when, _with_url(f"{prefix}_URL", archive=archive)),
            resolve=source_tree(prefix),
        )

    return row(("VERSION", "COMMIT"), archive=False), row(("SHA256",), archive=True)


def _nccl_wheel(values: Values, tools: Tools) -> Pins:
    """Return the version of nvidia-nccl-cu13, whose name has the major version of CUDA."""
    major = str(values["CUDA_VERSION"]).partition(".")[0]
    return from_index(f"nvidia-nccl-cu{major}", "NCCL_VERSION")(values, tools)


def _match_always(_: Mapping[str, object]) -> bool:
    return True


SOURCES: tuple[PinSource, ...] = (
    PinSource(
        component="nsys",
        pins=("NSYS_VERSION", "NSYS_SHA256"),
        when=_match_value("NSYS_SOURCE", "nvidia"),
        resolve=resolve_nsys,
    ),
    PinSource(
        component="torch",
        pins=("TORCH_VERSION",),
        when=lambda values: (
            values["INSTALL_TORCH"] == "cuda"
            or (values["INSTALL_TORCH"] == "cpu" and bool(values["TORCH_URL"]))
        ),
        resolve=from_index("torch", "TORCH_VERSION", "TORCH_URL"),
    ),
    PinSource(
        component="torch",
        pins=("NVTX_VERSION",),
        when=_match_always,
        resolve=from_index("nvtx", "NVTX_VERSION"),
    ),
    PinSource(
        component="efa",
        pins=("EFA_VERSION", "EFA_SHA256"),
        when=_match_value("EFA_SOURCE", "installer"),
        resolve=resolve_efa,
    ),
    PinSource(
        component="nccl",
        pins=("NCCL_VERSION",),
        when=_match_value("NCCL_SOURCE", "pypi"),
        resolve=_nccl_wheel,
    ),
    PinSource(
        component="nccl",
        pins=("NCCL_VERSION",),
        when=_match_value("NCCL_SOURCE", "apt"),
        resolve=as_given,
    ),
    *_make_tree_sources("nccl", "NCCL", _match_value("NCCL_SOURCE", "source")),
    *_make_tree_sources("gdrcopy", "GDRCOPY", _match_always),
    *_make_tree_sources("nccl-tests", "NCCL_TESTS", _match_always),
)
