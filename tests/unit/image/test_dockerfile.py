"""The Dockerfile, whole, for every combination of toggles; and what changes with what."""

import itertools
import re
from collections.abc import Callable

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.image import dockerfile
from tests.unit.settings_for import settings_for

TOGGLES = ("MPI", "EFA", "TESTS")
COMBINATIONS = tuple(itertools.product((False, True), repeat=3))


def _name(on: tuple[bool, ...]) -> str:
    return (
        "-".join(name.lower() for name, value in zip(TOGGLES, on, strict=True) if value) or "none"
    )


def _overrides(on: tuple[bool, ...]) -> list[str]:
    return [f"INSTALL_{n}={str(v).lower()}" for n, v in zip(TOGGLES, on, strict=True)]


@pytest.mark.parametrize("on", COMBINATIONS, ids=_name)
def test_every_combination_of_toggles(on: tuple[bool, ...], golden: Callable[..., None]) -> None:
    mpi, efa, tests = on
    if (efa and not mpi) or (tests and not mpi):
        with pytest.raises(SettingsError, match="needs"):
            settings_for(*_overrides(on))
        return
    golden(f"Dockerfile.{_name(on)}", dockerfile.render_dockerfile(settings_for(*_overrides(on))))


def test_the_embedded_base_and_sources_of_distributions(golden: Callable[..., None]) -> None:
    chosen = settings_for(
        *("BASE_IMAGE=gpu-profile-base:0123456789ab", "NSYS_SOURCE=debian", "INSTALL_TORCH=cpu"),
        *("INSTALL_EFA=true", "EFA_SOURCE=distro", "INSTALL_TESTS=true", "NCCL_SOURCE=pypi"),
        *(
            "INSTALL_NCU=true",
            "INSTALL_GDRCOPY=true",
            "GDRCOPY_URL=/src/gdrcopy",
            "NCCL_TESTS_URL=/src/nccl-tests",
        ),
    )
    golden("Dockerfile.embedded", dockerfile.render_dockerfile(chosen))


def test_same_settings_same_bytes() -> None:
    assert dockerfile.render_dockerfile(settings_for()) == dockerfile.render_dockerfile(
        settings_for()
    )


def test_no_setting_of_one_component_is_in_the_stage_of_another() -> None:
    before = _stages(dockerfile.render_dockerfile(settings_for("INSTALL_EFA=true")))
    after = _stages(
        dockerfile.render_dockerfile(settings_for("INSTALL_EFA=true", "EFA_VERSION=1.49.0"))
    )
    assert {name for name in before if before[name] != after[name]} == {"efa", "image"}


def test_what_another_source_would_read_changes_nothing() -> None:
    before = dockerfile.render_dockerfile(settings_for("NSYS_SOURCE=base"))
    assert before == dockerfile.render_dockerfile(
        settings_for("NSYS_SOURCE=base", "NSYS_VERSION=2025.1.1")
    )


def test_a_checkout_is_mounted_and_its_path_stays_here() -> None:
    text = dockerfile.render_dockerfile(
        settings_for("INSTALL_TESTS=true", "NCCL_TESTS_URL=/home/me/nccl-tests")
    )
    assert "from=source-nccl-tests,target=/mnt/source" in text
    assert "/home/me" not in text


@pytest.mark.parametrize("value", ['a"b', "a\\b", "$HOME", "a b", "${X:-y}", "ü"])
def test_values_are_quoted_for_docker(value: str) -> None:
    quoted = dockerfile.quote_word(value)
    assert quoted[0] == quoted[-1] == '"'
    assert re.sub(r"\\(.)", r"\1", quoted[1:-1]) == value


def _stages(text: str) -> dict[str, str]:
    blocks = re.split(r"(?m)^FROM ", text)[1:]
    return {block.split(" AS ")[1].split()[0]: block for block in blocks}
