"""The table of components: rows fit their scripts, and needs are told with a reason."""

import re
from pathlib import Path

import pytest

from gpu_profile.components.table import COMPONENTS, list_enabled, missing_requirements
from gpu_profile.declared.base_name import name_nvidia_repository
from gpu_profile.declared.key import as_text

SETUP = Path(__file__).parents[3] / "Container-Root" / "setup.d"
DEFAULTS: dict[str, bool | str] = {
    key.name: key.default for component in COMPONENTS for key in component.keys
}


def test_scripts_and_the_lock_use_the_same_repository_of_nvidia() -> None:
    shell = (SETUP.parent / "lib" / "stage" / "common.sh").read_text()
    pairs = re.findall(r"(debian\d+)\) printf '(\w+)'", shell)
    assert pairs
    assert all(name_nvidia_repository(debian) == ubuntu for debian, ubuntu in pairs)
    assert name_nvidia_repository("ubuntu22.04") == "ubuntu2204"


def test_one_script_a_row() -> None:
    scripts = {path.name for path in SETUP.glob("*.sh")} - {"00-base.sh"}
    assert scripts == {component.script for component in COMPONENTS}


def test_rows_stand_in_build_order() -> None:
    numbers = [component.number for component in COMPONENTS]
    assert numbers == sorted(set(numbers))
    names = [component.name for component in COMPONENTS]
    for component in COMPONENTS:
        assert set(component.needs) <= set(names[: names.index(component.name)])


def test_keys_are_unique_documented_and_of_their_kind() -> None:
    keys = [key for component in COMPONENTS for key in component.keys]
    assert len({key.name for key in keys}) == len(keys)
    for key in keys:
        assert key.doc
        assert isinstance(key.default, bool) == (key.kind == "bool")
        assert not key.choices or key.default in key.choices


@pytest.mark.parametrize(
    ("on", "needed"),
    [
        ({"INSTALL_MPI": False}, []),
        ({"INSTALL_MPI": False, "INSTALL_EFA": True}, ["INSTALL_MPI"]),
        ({"INSTALL_MPI": False, "INSTALL_TESTS": True}, ["INSTALL_MPI"]),
        ({"INSTALL_MPI": False, "INSTALL_TESTS": True, "INSTALL_EFA": True}, ["INSTALL_MPI"]),
        ({"INSTALL_MPI": True, "INSTALL_TESTS": True}, []),
    ],
)
def test_what_is_needed(on: dict[str, bool | str], needed: list[str]) -> None:
    requirements = missing_requirements({**DEFAULTS, **on})
    assert [each.key for each in requirements] == needed
    assert all(each.reason for each in requirements)


def test_components_that_are_off_are_not_built() -> None:
    off: dict[str, bool | str] = {
        "INSTALL_MPI": False,
        "INSTALL_TORCH": "none",
        "INSTALL_CARRIER": False,
    }
    assert [component.name for component in list_enabled({**DEFAULTS, **off})] == ["nsys"]


def test_settings_reach_scripts_as_words() -> None:
    assert [as_text(True), as_text(False), as_text("x")] == ["true", "false", "x"]
