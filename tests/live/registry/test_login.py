"""Logging a docker CLI in: what is written is what was said, and a lent configuration goes away."""

import base64
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command
from gpu_profile.engine.api import Auth
from gpu_profile.registry import address, ecr, login, push
from gpu_profile.settings import settings
from gpu_profile.verbs.image.registry import open_ecr_access
from tests.live.registry.conftest import ECR, PASSWORD, Registry

pytestmark = [pytest.mark.registry, pytest.mark.docker]


def test_docker_login_writes_what_the_plan_says(
    where: address.Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    config = tmp_path / "config.json"
    plan = login.plan_login(where, ecr.fetch_authorization(where), config, lambda _: None)
    assert plan.writes_secret
    assert f"into {config}, in plain base64" in plan.says
    assert plan.command is not None
    assert PASSWORD not in str(plan.command)
    assert process.run(plan.command).returncode == 0
    word = json.loads(config.read_text())["auths"][where.host]["auth"]
    assert base64.b64decode(word).decode() == f"AWS:{PASSWORD}"


def test_a_configured_helper_keeps_the_token(
    where: address.Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_tool: Callable[..., Callable[[], list[list[str]]]],
) -> None:
    kept = tmp_path / "kept"
    calls = fake_tool("docker-credential-house", f'[ "$1" = store ] && cat > {kept}; true')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"credsStore": "house"}))
    plan = login.plan_login(where, ecr.fetch_authorization(where), config, lambda _: None)
    assert not plan.writes_secret
    assert plan.says.endswith("in the credential helper house")
    assert plan.command is not None
    assert process.run(plan.command).returncode == 0
    assert json.loads(kept.read_text())["Secret"] == PASSWORD
    assert ["store"] in calls()
    assert PASSWORD not in config.read_text()


def test_a_lent_configuration_serves_one_cli_and_is_gone(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    tmp_path: Path,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    pushed = push.push_image(ref, where, show=print)
    pull = ("docker", "pull", "--quiet", str(pushed))
    remove = Command(argv=("docker", "rmi", "--force", str(ref), str(pushed)))
    process.run(remove)
    (tmp_path / "cli-plugins").mkdir()
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "none", "psFormat": "x"}))
    auth = ecr.fetch_authorization(where)
    assert auth is not None
    with login.temporary_config(auth, tmp_path / "config.json") as env:
        lent = Path(env["DOCKER_CONFIG"])
        assert lent.stat().st_mode & 0o077 == 0
        assert (lent / "config.json").stat().st_mode & 0o077 == 0
        assert (lent / "cli-plugins").is_symlink()
        assert json.loads((lent / "config.json").read_text())["psFormat"] == "x"
        assert process.run(Command(argv=pull, env=env)).returncode == 0
    assert not lent.exists()
    process.run(remove)
    without = process.run(Command(argv=pull, env={"DOCKER_CONFIG": str(tmp_path / "empty")}))
    assert "no basic auth credentials" in without.stderr


def test_a_lent_configuration_goes_when_the_body_fails(tmp_path: Path) -> None:
    auth = Auth(username="AWS", password="secret", server="localhost:1")
    lent: list[Path] = []

    def body() -> None:
        with login.temporary_config(auth, tmp_path / "config.json") as env:
            lent.append(Path(env["DOCKER_CONFIG"]))
            assert lent[0].exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert not lent[0].exists()


def test_a_build_on_a_private_base_sees_the_token_and_leaves_none(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    tmp_path: Path,
) -> None:
    base = real_registry.ref("base")
    make_image(base)
    push.push_image(base, where, show=print)
    process.run(Command(argv=("docker", "rmi", "--force", str(base))))
    (tmp_path / "empty").mkdir()
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nLABEL built=here\n")
    words = ("docker", "buildx", "build", "--no-cache", f"--file={tmp_path}/Dockerfile")
    build = Command(argv=(*words, str(tmp_path / "empty")))
    chosen = settings.load_settings(
        tmp_path / "none",
        {},
        [f"REGISTRY={where.host}", f"ECR_REGISTRY={ECR}", f"BASE_IMAGE={base}"],
    )
    environ = {"DOCKER_CONFIG": str(tmp_path / "empty")}
    alone = dataclasses.replace(build, env={"DOCKER_CONFIG": str(tmp_path / "empty")})
    assert process.run(alone).returncode != 0
    with open_ecr_access(chosen, environ, build) as allowed:
        assert process.run(allowed).returncode == 0
    assert [*(tmp_path / "empty").rglob("*auth*")] == []
    assert not Path(allowed.env["DOCKER_CONFIG"]).exists()
