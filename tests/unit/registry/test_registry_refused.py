"""REGISTRY as it must not be: refused before any token is asked for, with exit code 2."""

from pathlib import Path

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.registry import address
from tests.invoked import invoke

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize("text", ["", "/", "  ", " / "])
def test_empty(text: str) -> None:
    with pytest.raises(SettingsError, match="REGISTRY is empty") as caught:
        address.parse_registry(text)
    assert str(caught.value) == f"REGISTRY is empty. Set it, as in {ECR}."
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        f"https://{ECR}",
        "name",
        "-x.example.com",
        "a b.example.com",
        "example.com:port",
        "example.com:999999",
        "example.com/Team",
        "example.com/../etc",
        "example.com/team:v1",
        "user:password@example.com",
        "$(if test)",
        "example.com;rm -rf",
        "a" * 5000 + "!",
        "é.example.com",
        "example.com\nother.com",
    ],
)
def test_no_address(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        address.parse_registry(text)
    assert "is not an address of a registry. Use HOST[:PORT][/PATH]" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "12345.dkr.ecr.us-west-2.amazonaws.com",
        "123456789012.dkr.ecr.amazonaws.com",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com.example.com",
        "123456789012.dkr.ecr.us-west-2.example.com",
        "123456789012.dkr.ecr.US-WEST-2.amazonaws.com",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com:443",
    ],
)
def test_almost_ecr(text: str) -> None:
    """A token for ECR must not go to a host that only looks like it."""
    with pytest.raises(SettingsError, match="looks like ECR and is not"):
        address.parse_registry(text)


def test_what_a_proxy_serves_must_be_ecr() -> None:
    with pytest.raises(SettingsError, match="looks like ECR and is not"):
        address.parse_registry("127.0.0.1:5000", ecr_registry="example.com")


@pytest.mark.parametrize("verb", ["push", "pull"])
def test_an_empty_registry_is_refused(verb: str, tmp_path: Path) -> None:
    """The engine would ask Docker Hub for an image of this name, which is another one."""
    done = invoke(verb, "--set", "REGISTRY=", directory=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: REGISTRY is empty. Set it, as in ")
    assert done.stderr.count("\n") == 1
