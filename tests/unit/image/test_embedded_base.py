"""The embedded base: made once, by commands that leave nothing behind, and known by its tag."""

import dataclasses
import json
from datetime import datetime, timezone

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.declared.base_name import EMBEDDED_REPOSITORY
from gpu_profile.engine.distribution import Distribution
from gpu_profile.errors import BuildError, ToolError
from gpu_profile.image import embedded_base
from gpu_profile.image.embedded_base import SUITES_LABEL, Recipe
from tests.unit.launchers.kubernetes_objects import driven

NOW = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
FAILED = Result(returncode=1)
DEBIAN = Distribution(id="debian", codename="bookworm", mirror="http://mirror.example/debian")


def _recipe() -> Recipe:
    return embedded_base.make_recipe(DEBIAN)


def test_the_tag_follows_from_what_it_is_made_of() -> None:
    other = Distribution(id="debian", codename="trixie", mirror="http://other.example/debian")
    assert _recipe().tag == embedded_base.make_recipe(DEBIAN).tag
    assert _recipe().tag != embedded_base.make_recipe(other).tag
    assert _recipe().tag.startswith("gpu-profile-base:")


def test_debian_is_trixie_and_ubuntu_its_own_release() -> None:
    noble = Distribution(id="ubuntu", codename="noble", mirror="http://m.example/ubuntu")
    assert (_recipe().suite, embedded_base.make_recipe(noble).suite) == ("trixie", "noble")
    assert "multiverse" in embedded_base.make_recipe(noble).sections


def test_it_gets_the_security_updates() -> None:
    chosen = dataclasses.replace(_recipe(), security_mirror="http://m.example/debian-security")
    assert chosen.sources == (
        "deb http://mirror.example/debian trixie main contrib non-free",
        "deb http://mirror.example/debian trixie-updates main contrib non-free",
        "deb http://m.example/debian-security trixie-security main contrib non-free",
    )
    assert chosen.suites == "trixie trixie-updates trixie-security"
    assert chosen.tag != _recipe().tag


def test_it_is_made_by_these_commands() -> None:
    made = process.plan(embedded_base.make_base(_recipe()))
    assert [each.argv[0] for each in made] == ["sh", "mktemp", "mmdebstrap", "docker", "rm"]
    assert made[2].argv[-2:] == _recipe().sources
    assert made[3].argv[-1] == _recipe().tag


def test_a_failure_still_removes_the_directory() -> None:
    steps = embedded_base.make_base(_recipe())
    next(steps)
    steps.send(Result(returncode=0))
    made: Command = steps.send(Result(returncode=0, stdout="/var/tmp/gpu-profile-base.x\n"))
    assert made.argv[0] == "mmdebstrap"
    said = "I: removing tempdir\nE: apt-get update failed\nI: cleaning up\n"
    removal = steps.send(Result(returncode=1, stderr=said))
    assert removal.argv == ("rm", "-rf", "--one-file-system", "/var/tmp/gpu-profile-base.x")
    with pytest.raises(BuildError, match=r"not made: E: apt-get update failed\. Set BASE_IMAGE"):
        steps.send(Result(returncode=0))


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("mmdebstrap\nuidmap\n", "needs mmdebstrap and uidmap.*apt-get install mmdebstrap uidmap"),
        ("mmdebstrap\nnamespaces\n", "needs mmdebstrap, not.*apt-get install mmdebstrap`"),
        ("/etc/subuid\n/etc/subgid\n", "line for this user in /etc/subuid and /etc/subgid"),
        ("namespaces\n", "no user namespace.*as root"),
    ],
)
def test_what_a_user_lacks_is_one_line(missing: str, said: str) -> None:
    steps = embedded_base.make_base(_recipe())
    next(steps)
    with pytest.raises(ToolError, match=said) as refused:
        steps.send(Result(returncode=0, stdout=missing))
    assert "or set BASE_IMAGE" in str(refused.value)


@pytest.mark.parametrize(
    ("created", "suites", "ok", "age"),
    [
        ("2026-11-20", "trixie trixie-security", True, "2 days old, trixie trixie-security"),
        ("2026-10-01", "trixie trixie-security", False, "52 days old, trixie trixie-security"),
        ("2026-11-20", "", False, "2 days old, without a security suite"),
    ],
)
def test_its_age_is_checked(created: str, suites: str, ok: bool, age: str) -> None:
    labels = {SUITES_LABEL: suites} if suites else None
    image = {"Created": f"{created}T10:00:00.123456789Z", "Config": {"Labels": labels}}
    newest = Result(returncode=0, stdout="936b2f9aabd8\n0ff5e07f7040\n")
    inspected = Result(returncode=0, stdout=json.dumps(image))
    (check,), commands = driven(
        embedded_base.check_age(NOW, "gpu-profile:latest"), FAILED, newest, inspected
    )
    assert (check.ok, check.result) == (ok, f"embedded base, {age}")
    assert commands[-1].argv[-1] == "936b2f9aabd8"


def test_the_base_that_counts_is_that_of_the_image() -> None:
    """A newer base on this machine does not make the image's own any younger."""
    label = Result(returncode=0, stdout=f"{EMBEDDED_REPOSITORY}:0123456789ab\n")
    old = {"Created": "2026-10-01T10:00:00Z", "Config": {"Labels": None}}
    inspected = Result(returncode=0, stdout=json.dumps(old))
    (check,), commands = driven(embedded_base.check_age(NOW, "x:latest"), label, inspected)
    assert commands[-1].argv[-1] == f"{EMBEDDED_REPOSITORY}:0123456789ab"
    assert (check.ok, check.result) == (
        False,
        "embedded base, 52 days old, without a security suite",
    )
    (gone,), _ = driven(embedded_base.check_age(NOW, "x:latest"), label, FAILED)
    assert not gone.ok
    assert gone.result.endswith("which x:latest is built on, is not here any more")


def test_another_base_has_its_own_updates() -> None:
    label = Result(returncode=0, stdout="nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04\n")
    checks, _ = driven(embedded_base.check_age(NOW, "x:latest"), label)
    assert checks == ()


def test_no_mirror_no_base() -> None:
    with pytest.raises(ToolError, match="apt-get update"):
        embedded_base.make_recipe(Distribution(id="debian", codename="bookworm"))
