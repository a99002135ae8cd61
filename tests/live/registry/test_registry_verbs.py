"""push, pull, lock and login as a user types them: exit codes, one line each, what is left."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.registry import address, push
from tests.live.registry.conftest import Invoke, Registry, stored_digest

pytestmark = [pytest.mark.registry, pytest.mark.docker]


def test_push_prints_and_records_the_digest_and_pull_takes_it(
    invoke: Invoke, real_registry: Registry, make_image: Callable[..., None], tmp_path: Path
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    pushed = invoke("push")
    assert pushed.returncode == 0, pushed.stderr
    digest = stored_digest(real_registry, "gpu-profile")
    assert pushed.stdout == f"{real_registry.address}/gpu-profile@{digest}\n"
    assert pushed.stderr.count(": pushed\n") == 2
    records = tmp_path / "work" / ".gpu-profile" / "images.json"
    assert json.loads(records.read_text()) == {str(ref): digest}
    pulled = invoke("pull")
    assert (pulled.returncode, pulled.stdout) == (0, pushed.stdout)


@pytest.mark.parametrize(
    ("settings", "code", "line"),
    [
        ({"REGISTRY": ""}, 2, "error: REGISTRY is empty. Set it, as in "),
        (
            {"REGISTRY": "https://x.example"},
            2,
            "error: environment: REGISTRY is 'https://x.example'. Use HOST",
        ),
        ({"AWS_REGION": "eu-west-1"}, 2, "error: AWS_REGION is eu-west-1, and REGISTRY is in us-"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, 7, "error: No ECR answers for the region us-"),
        ({"VERSION": "never-built"}, 7, "error: there is no image "),
    ],
)
def test_refusals(
    settings: dict[str, str],
    code: int,
    line: str,
    invoke: Invoke,
    real_registry: Registry,
    make_image: Callable[..., None],
    tmp_path: Path,
) -> None:
    make_image(real_registry.ref("gpu-profile"))
    done = invoke("push", **settings)
    assert done.returncode == code
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [path.name for path in (tmp_path / "work").iterdir()] == [".env"]


def test_a_dry_run_asks_nobody(invoke: Invoke, real_registry: Registry) -> None:
    real_registry.stop()
    done = invoke("push", "--dry-run", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert done.returncode == 0
    assert done.stdout.startswith(f"docker push {real_registry.address}/gpu-profile:v1")


def test_login_asks_before_it_writes(invoke: Invoke, tmp_path: Path) -> None:
    refused = invoke("login")
    assert refused.returncode == 2
    assert "in plain base64" in refused.stdout
    assert not (tmp_path / "none" / "config.json").exists()
    assert invoke("login", "--yes").returncode == 0
    assert (tmp_path / "none" / "config.json").exists()


def test_lock_pins_the_base_by_the_digest_that_its_registry_has(
    invoke: Invoke, where: address.Registry, real_registry: Registry, tmp_path: Path,
    make_image: Callable[..., None],
) -> None:  # fmt: skip
    base = real_registry.ref("base")
    make_image(base)
    pushed = push.push_image(base, where, show=print)
    login = invoke("login", "--yes")
    assert login.returncode == 0
    more = {
        "BASE_IMAGE": str(base),
        "NSYS_SOURCE": "base",
        "INSTALL_TORCH": "none",
        "TORCH_URL": "",
    }
    locked = invoke("lock", **more)
    assert locked.returncode == 0, locked.stderr
    text = (tmp_path / "work" / "gpu-profile.lock").read_text()
    assert f"pinned BASE_IMAGE = {base}@{pushed.digest}\n" in text
    assert ImageRef.parse(f"{base}@{pushed.digest}").digest == pushed.digest
    real_registry.stop()
    assert invoke("lock", "--check", **more).returncode == 0
    rendered = invoke("render", **more)
    assert rendered.stdout.startswith(f"FROM {base}@{pushed.digest} AS base\n")
    drifted = invoke("lock", "--check", **{**more, "BASE_IMAGE": "debian:13"})
    assert drifted.returncode == 8
    assert drifted.stderr.startswith("error: gpu-profile.lock drifted: BASE_IMAGE is 'debian:13'")
