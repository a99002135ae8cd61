"""The embedded base on its way to a builder that sees no image of the engine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, Steps, T
from gpu_profile.errors import ToolError
from gpu_profile.image import build, oci_layout
from gpu_profile.image.auto import Decided
from gpu_profile.image.build import BuildxOptions
from gpu_profile.image.downloads import Downloads
from tests.unit.settings_for import settings_for

BASE = "gpu-profile-base:0123"
APART = "Name: mine\nDriver:        docker-container\n"


def answered(steps: Steps[T], answer: Callable[[Command], Result]) -> T:
    try:
        command = next(steps)
        while True:
            command = steps.send(answer(command))
    except StopIteration as stop:
        value: T = stop.value
        return value


@pytest.mark.parametrize(
    ("base", "said", "apart"),
    [
        (BASE, APART, True),
        (BASE, "Name: default\nDriver: docker\n", False),
        (BASE, "", False),
        ("example.com/base:1", APART, False),
    ],
)
def test_who_needs_it(base: str, said: str, apart: bool) -> None:
    steps = oci_layout.sees_no_images(settings_for(f"BASE_IMAGE={base}"))
    assert answered(steps, lambda _: Result(returncode=0, stdout=said)) is apart


@pytest.mark.parametrize("named", ["--builder mine", "--builder=mine"])
def test_the_builder_that_build_opts_name_is_asked_about(named: str) -> None:
    settings = settings_for(f"BASE_IMAGE={BASE}", f"BUILD_OPTS=--pull {named}")
    (question,) = process.plan(oci_layout.sees_no_images(settings))
    assert question.argv[-2:] == ("inspect", "mine")


def test_it_is_a_build_context_by_its_name() -> None:
    decided = Decided(settings=settings_for(f"BASE_IMAGE={BASE}"), decisions={})
    options = BuildxOptions(root=Path("/repository"), base=Path("/x/base"))
    argv = build.make_build_command(decided, Downloads(), options).argv
    assert f"--build-context={BASE}=oci-layout:///x/base" in argv


def test_an_engine_that_saves_no_layout_is_told(tmp_path: Path) -> None:
    def engine_24(command: Command) -> Result:
        return Result(returncode=1 if "oci-layout" in str(command) else 0)

    with pytest.raises(ToolError, match="cannot be handed") as error:
        answered(oci_layout.save_layout(BASE, tmp_path / "base"), engine_24)
    assert "docker buildx use default" in error.value.hint
