"""What REGISTRY may be, what engines' words mean, and what is recorded."""

import json
from pathlib import Path

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.api import Auth
from gpu_profile.errors import RegistryError
from gpu_profile.registry import address, digests, ecr, login, push
from gpu_profile.registry.address import Registry

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
REF = ImageRef(registry="127.0.0.1:5000", name="gpu-profile", tag="v1")
AUTH = Auth(username="AWS", password="hidden", server=ECR)


@pytest.mark.parametrize(
    ("text", "region"),
    [
        (ECR, "us-west-2"),
        (f" {ECR}/ ", "us-west-2"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("123456789012.dkr-ecr.eu-central-1.on.aws", "eu-central-1"),
    ],
)
def test_ecr_says_its_account_and_region(text: str, region: str) -> None:
    registry = address.parse_registry(text)
    assert (registry.account, registry.region, registry.path) == ("123456789012", region, "")
    assert registry.is_ecr


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        ("localhost:5000", "localhost:5000", ""),
        ("localhost", "localhost", ""),
        ("registry.example.com/team/sub/", "registry.example.com", "team/sub"),
        ("docker.io/name", "docker.io", "name"),
        ("public.ecr.aws/hpc-cloud", "public.ecr.aws", "hpc-cloud"),
    ],
)
def test_other_registries(text: str, host: str, path: str) -> None:
    registry = address.parse_registry(text)
    assert (registry.host, registry.path, registry.is_ecr) == (host, path, False)
    assert ecr.fetch_authorization(registry) is None


def test_ecr_at_another_address() -> None:
    registry = address.parse_registry("127.0.0.1:5000/team", ecr_registry=ECR)
    assert (registry.host, registry.account, registry.repository("x")) == (
        "127.0.0.1:5000",
        "123456789012",
        "team/x",
    )


def test_a_password_is_never_shown() -> None:
    assert "hidden" not in repr(AUTH)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "tag invalid: The image tag 'v1' already exists in the 'x' repository and cannot be "
            "overwritten because the repository is immutable.",
            "the tag is taken and immutable",
        ),
        ("denied: Your authorization token has expired. Reauthenticate", "its token has expired"),
        ("no basic auth credentials", "it does not accept the credentials"),
        ("unauthorized: authentication required", "it does not accept the credentials"),
        ("denied: requested access to the resource is denied", "it does not permit this"),
        ("name unknown: The repository with name 'x' does not exist", "has no such repository"),
        ("manifest unknown: manifest unknown", "it has no such image"),
        ("http: server gave HTTP response to HTTPS client", "it speaks plain HTTP"),
        ("tls: failed to verify certificate: x509: unknown authority", "is not trusted"),
        ("dial tcp: lookup nowhere on 1.1.1.1:53: no such host", "its name does not resolve"),
        ("dial tcp 127.0.0.1:5000: connect: connection refused", "it cannot be reached"),
        ("something\nnew", "127.0.0.1:5000: something new. See the registry's own log."),
    ],
)
def test_words_of_engines(words: str, line: str) -> None:
    error = push.explain_refusal(words, REF)
    assert line in str(error)
    assert "\n" not in str(error)
    assert error.exit_code == 7


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "new" / "images.json"
    pushed = ImageRef(registry=REF.registry, name=REF.name, tag="v1", digest="sha256:" + "a" * 64)
    assert digests.apply_digest(path, REF) == REF
    digests.save_digest(path, pushed)
    digests.save_digest(path, ImageRef(name="other", tag="v2", digest="sha256:" + "b" * 64))
    assert digests.apply_digest(path, REF) == pushed
    assert list(json.loads(path.read_text())) == ["127.0.0.1:5000/gpu-profile:v1", "other:v2"]
    assert [entry.name for entry in path.parent.iterdir()] == ["images.json"]


def test_damaged_records(tmp_path: Path) -> None:
    path = tmp_path / "images.json"
    path.write_text("{")
    with pytest.raises(RegistryError, match="is damaged"):
        digests.apply_digest(path, REF)


def test_login_by_ecrs_own_helper_writes_no_secret(tmp_path: Path) -> None:
    path = tmp_path / ".docker" / "config.json"
    where = address.parse_registry(ECR)
    plan = login.plan_login(where, AUTH, path, lambda program: f"/usr/bin/{program}")
    assert plan.command is None
    assert plan.config is not None
    assert plan.says == f"names the helper ecr-login for {ECR} in {path}; no secret is written"
    login.write_config(path, plan.config)
    assert json.loads(path.read_text()) == {"credHelpers": {ECR: "ecr-login"}}
    assert path.stat().st_mode & 0o077 == 0


def test_login_elsewhere_lets_docker_ask(tmp_path: Path) -> None:
    plan = login.plan_login(
        Registry(host="localhost:5000"), None, tmp_path / "none", lambda _: None
    )
    assert plan.writes_secret
    assert str(plan.command) == "docker login localhost:5000"


def test_a_damaged_docker_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(RegistryError, match="cannot be read"):
        login.plan_login(address.parse_registry(ECR), AUTH, path, lambda _: None)
