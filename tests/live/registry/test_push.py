"""Push and pull for real: engine, registry and ECR's API, when all goes well."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import api
from gpu_profile.engine.api import LayerEvent
from gpu_profile.registry import address, digests, push
from gpu_profile.registry import ecr as registry
from tests.live.registry.conftest import ECR, PASSWORD, Registry, stored_digest, tell_ecr

pytestmark = [pytest.mark.registry, pytest.mark.docker]


def quiet(event: LayerEvent) -> None:
    assert PASSWORD not in event.status


def test_push_creates_the_repository_and_gives_the_digest(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
    tmp_path: Path,
) -> None:
    ref = real_registry.ref("team/gpu-profile")
    make_image(ref)
    events: list[LayerEvent] = []
    pushed = push.publish_image(ref, where, tmp_path / "pushed.json", show=events.append)

    assert pushed.digest == stored_digest(real_registry, "team/gpu-profile")
    assert digests.apply_digest(tmp_path / "pushed.json", ref) == pushed
    layers = {event.layer for event in events if event.status == "Pushed"}
    assert len(layers) == 2
    (created,) = ecr.describe_repositories(repositoryNames=["team/gpu-profile"])["repositories"]
    assert created["imageTagMutability"] == "IMMUTABLE"
    assert created["imageScanningConfiguration"] == {"scanOnPush": True}


def test_repository_settings_and_a_repository_that_exists(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    push.push_image(ref, where, show=quiet, upload=push.Upload(immutable=False, scan=False))
    (repository,) = ecr.describe_repositories(repositoryNames=["gpu-profile"])["repositories"]
    assert repository["imageTagMutability"] == "MUTABLE"
    assert repository["imageScanningConfiguration"] == {"scanOnPush": False}

    make_image(ref)
    again = push.push_image(ref, where, show=quiet)
    assert again.digest == stored_digest(real_registry, "gpu-profile")


def test_an_image_that_is_there_is_not_pushed_again(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    first = push.push_image(ref, where, show=quiet)
    tell_ecr(ecr, ref, first.digest)
    events: list[LayerEvent] = []
    assert push.push_image(ref, where, show=events.append) == first
    assert events == []

    make_image(ref)
    assert (
        push.push_image(ref, where, show=events.append, upload=push.Upload(named_by_inputs=True))
        == first
    )
    assert events == []


def test_pull_by_digest_and_by_tag(
    where: address.Registry, real_registry: Registry, make_image: Callable[..., None]
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    pushed = push.push_image(ref, where, show=quiet)
    subprocess.run(("docker", "rmi", str(ref)), check=True, capture_output=True)
    assert api.local_image(ref) is None
    assert push.pull_image(ref, where, show=quiet) == pushed
    assert push.pull_image(pushed, where, show=quiet) == pushed
    assert api.local_image(pushed) is not None
    auth = registry.fetch_authorization(where)
    assert api.remote_digest(ref, auth) == pushed.digest


def test_another_registry_with_docker_logins_stored_credentials(
    real_registry: Registry,
    make_image: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_tool: Callable[..., Callable[[], list[list[str]]]],
) -> None:
    """The helper's answer is the only place that has the password."""
    said = json.dumps({"ServerURL": real_registry.address, "Username": "AWS", "Secret": PASSWORD})
    calls = fake_tool("docker-credential-house", f"cat >/dev/null; echo '{said}'")
    helpers = {"credHelpers": {real_registry.address: "house"}}
    (tmp_path / "config.json").write_text(json.dumps(helpers))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    pushed = push.push_image(ref, address.parse_registry(real_registry.address), show=quiet)
    assert pushed.digest == stored_digest(real_registry, "gpu-profile")
    assert calls() == [["get"]]

    make_image(ref)
    events: list[LayerEvent] = []
    where = address.parse_registry(real_registry.address)
    assert (
        push.push_image(ref, where, show=events.append, upload=push.Upload(named_by_inputs=True))
        == pushed
    )
    assert events == []


def test_no_credential_is_on_disk_after_a_push(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    push.publish_image(ref, where, home / "pushed.json", show=quiet)
    assert [path.name for path in home.rglob("*")] == ["pushed.json"]
    assert PASSWORD not in (home / "pushed.json").read_text()


def test_the_address_of_ecr_itself() -> None:
    registry = address.parse_registry(f"{ECR}/team/")
    assert (registry.host, registry.path, registry.region) == (ECR, "team", "us-east-1")
    assert registry.repository("gpu-profile") == "team/gpu-profile"
    assert str(ImageRef.parse(f"{ECR}/team/gpu-profile:v1")) == f"{ECR}/team/gpu-profile:v1"
