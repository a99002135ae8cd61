"""The embedded base: made once, by commands that leave nothing behind, and known by its tag."""

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.engine.distribution import Distribution
from gpu_profile.errors import BuildError, ToolError
from gpu_profile.image import embedded_base
from gpu_profile.image.embedded_base import Recipe

DEBIAN = Distribution(id="debian", codename="bookworm", mirror="http://mirror.example/debian")


def _recipe() -> Recipe:
    return embedded_base.recipe(DEBIAN)


def test_the_tag_follows_from_what_it_is_made_of() -> None:
    other = Distribution(id="debian", codename="trixie", mirror="http://other.example/debian")
    assert _recipe().tag == embedded_base.recipe(DEBIAN).tag
    assert _recipe().tag != embedded_base.recipe(other).tag
    assert _recipe().tag.startswith("gpu-profile-base:")


def test_debian_is_trixie_and_ubuntu_its_own_release() -> None:
    noble = Distribution(id="ubuntu", codename="noble", mirror="http://m.example/ubuntu")
    assert (_recipe().suite, embedded_base.recipe(noble).suite) == ("trixie", "noble")
    assert "multiverse" in embedded_base.recipe(noble).sections


def test_it_is_made_by_these_commands() -> None:
    made = process.plan(embedded_base.make(_recipe()))
    assert [command.argv[0] for command in made] == ["mktemp", "debootstrap", "tar", "docker", "rm"]
    assert made[1].argv[-1] == "http://mirror.example/debian"
    assert "--exclude=./etc/resolv.conf" in made[2].argv
    assert made[3].argv[-1] == _recipe().tag


def test_a_failure_still_removes_the_directory() -> None:
    steps = embedded_base.make(_recipe())
    command: Command = next(steps)
    command = steps.send(Result(returncode=0, stdout="/var/tmp/gpu-profile-base.x\n"))
    assert command.argv[0] == "debootstrap"
    command = steps.send(Result(returncode=1, stderr="E: debootstrap can only run as root"))
    assert command.argv == ("rm", "-rf", "--one-file-system", "/var/tmp/gpu-profile-base.x")
    with pytest.raises(BuildError, match="Run it as root"):
        steps.send(Result(returncode=0))


def test_no_mirror_no_base() -> None:
    with pytest.raises(ToolError, match="apt-get update"):
        embedded_base.recipe(Distribution(id="debian", codename="bookworm"))
