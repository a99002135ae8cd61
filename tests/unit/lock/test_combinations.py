"""Lock and rules, whole, for every combination of toggles; their Dockerfiles with the pins in."""

import itertools
from collections.abc import Callable

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.image import compatibility, dockerfile
from gpu_profile.image.compatibility import collect_facts
from gpu_profile.lock import file
from gpu_profile.settings.settings import Settings
from tests.unit.lock.lock_web import load, resolve

TOGGLES = ("MPI", "EFA", "TESTS")
COMBINATIONS = tuple(itertools.product((False, True), repeat=3))


def name_of(on: tuple[bool, ...]) -> str:
    names = [name.lower() for name, value in zip(TOGGLES, on, strict=True) if value]
    return "-".join(names) or "none"


def settings_of(on: tuple[bool, ...], **more: str) -> Settings:
    toggles = {f"INSTALL_{name}": str(v).lower() for name, v in zip(TOGGLES, on, strict=True)}
    return load(
        **toggles,
        NCCL_SOURCE="source",
        NCCL_URL="https://git.test/nccl",
        NCCL_TESTS_URL="https://git.test/tests",
        NCCL_TESTS_COMMIT="",
        **more,
    )


WORKING = tuple(on for on in COMBINATIONS if on[0] or not (on[1] or on[2]))
"""Without MPI neither EFA nor the tests have what they need."""


@pytest.mark.parametrize("on", sorted({*COMBINATIONS} - {*WORKING}), ids=name_of)
def test_what_needs_mpi_is_refused_without(on: tuple[bool, ...]) -> None:
    with pytest.raises(SettingsError, match="needs"):
        settings_of(on)


@pytest.mark.parametrize("on", WORKING, ids=name_of)
def test_lock(on: tuple[bool, ...], golden: Callable[[str, str], None]) -> None:
    golden(f"lock.{name_of(on)}", file.render_lock(resolve(settings_of(on))))


@pytest.mark.parametrize("on", WORKING, ids=name_of)
def test_locked_build(on: tuple[bool, ...]) -> None:
    """The Dockerfile is of the pins, all of them, and nothing in it is left to chance."""
    settings = settings_of(on)
    lock = resolve(settings)
    applied = file.apply_lock(settings, lock)
    file.refuse_unlocked(applied)
    text = dockerfile.render_dockerfile(applied)
    for part in lock.values():
        for key, value in part.pinned.items():
            assert value in text, f"{key} is not in the Dockerfile"
    assert text == dockerfile.render_dockerfile(
        file.apply_lock(settings, file.parse_lock(file.render_lock(lock)))
    )


@pytest.mark.parametrize("on", WORKING, ids=name_of)
def test_rules(on: tuple[bool, ...], golden: Callable[[str, str], None]) -> None:
    """What breaks on a base that is too old, on one that is not, and on the embedded one."""
    bases = {
        "nvidia/cuda:12.4.1-devel-ubuntu20.04": "70,90,100",
        "nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04": "80,90,100",
        "embedded": "80,90,100",
    }
    lines = []
    for base, archs in bases.items():
        chosen = settings_of(on, BASE_IMAGE=base, CUDA_ARCHS=archs)
        lines.append(f"{base}, CUDA_ARCHS={archs}")
        broken = compatibility.list_broken(collect_facts(chosen))
        lines += [f"  {what}: {rule.reason} ({rule.source})" for rule, what in broken]
    golden(f"rules.{name_of(on)}", "\n".join(lines) + "\n")
