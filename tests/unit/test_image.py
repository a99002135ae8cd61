"""The one build command: what is in its words, and what must not be."""

import shutil
from pathlib import Path

import pytest

from gpu_profile import dockerfile, image
from gpu_profile.command import Command
from gpu_profile.errors import SettingsError
from gpu_profile.image import BuildOptions
from gpu_profile.machine import Downloads
from gpu_profile.settings import Settings
from tests.unit.settings_for import settings_for

ROOT = Path(__file__).parents[2]
OPTIONS = BuildOptions(root=ROOT, file=Path("/tmp/Dockerfile"), plain=True)


def _build(settings: Settings, downloads: Downloads | None = None) -> Command:
    return image.build(settings, {}, downloads or Downloads(), OPTIONS)


def test_the_context_is_the_repository_and_the_result_is_loaded() -> None:
    argv = _build(settings_for()).argv
    assert argv[:3] == ("docker", "buildx", "build")
    assert argv[-1] == str(ROOT)
    assert {"--load", "--progress=plain", "--provenance=false"} <= set(argv)
    assert "--tag=gpu-profile:latest" in argv


def test_no_secret_is_in_the_words(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificates")
    settings = settings_for(f"CA_BUNDLE={bundle}", "http_proxy=http://me:hunter2@proxy.example")
    command = _build(settings, Downloads(pip_conf="[global]\nindex-url = https://a:hunter3@b/\n"))
    assert f"--secret=id=ca_bundle,src={bundle}" in command.argv
    assert "--build-arg=http_proxy" in command.argv
    assert command.env["http_proxy"] == "http://me:hunter2@proxy.example"
    assert "hunter" not in str(command)


def test_options_of_the_user_are_words_and_may_push() -> None:
    argv = _build(settings_for("BUILD_OPTS=--push --build-arg 'A=b c'")).argv
    assert argv[-4:-1] == ("--push", "--build-arg", "A=b c")
    assert "--load" not in argv


def test_caches_and_attestations_when_asked() -> None:
    options = BuildOptions(
        root=ROOT, file=Path("f"), cache_from="type=registry,ref=r", cache_to="x", sbom=True
    )
    argv = image.build(settings_for(), {}, Downloads(), options).argv
    assert {"--cache-from=type=registry,ref=r", "--cache-to=x", "--sbom=true"} <= set(argv)
    assert "--provenance=false" not in argv


def test_decisions_are_recorded() -> None:
    command = image.build(settings_for(), {"NSYS_SOURCE": "nvidia"}, Downloads(), OPTIONS)
    assert '--label=io.github.gpu-profile.decided={"NSYS_SOURCE": "nvidia"}' in command.argv


def test_the_inputs_hash_sees_text_content_and_mode(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "Container-Root", tmp_path / "Container-Root")
    hashes = [image.inputs_hash("FROM a", tmp_path), image.inputs_hash("FROM b", tmp_path)]
    startup = tmp_path / "Container-Root" / "startup.sh"
    startup.chmod(0o644)
    hashes.append(image.inputs_hash("FROM a", tmp_path))
    startup.write_text("#!/bin/sh\n")
    hashes.append(image.inputs_hash("FROM a", tmp_path))
    assert len(set(hashes)) == 4
    assert image.inputs_hash("FROM a", tmp_path) == hashes[-1]


def test_a_tag_of_the_inputs() -> None:
    inputs = image.inputs_hash(dockerfile.render(settings_for()), ROOT)
    name = image.image_name(settings_for("VERSION=auto", "REGISTRY=r.example:5000"), inputs)
    assert name == f"r.example:5000/gpu-profile:{inputs[:16]}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("CA_BUNDLE=/no/such/file", "CA_BUNDLE is '/no/such/file', which is no file"),
        ("NCCL_TESTS_URL=/no/such/dir", "'/no/such/dir' is no directory"),
    ],
)
def test_paths_that_are_not_there(override: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        _build(settings_for("INSTALL_TESTS=true", override))


@pytest.mark.parametrize("key", ["BASE_IMAGE", "NSYS_SOURCE", "INSTALL_TORCH"])
def test_nothing_undecided_is_rendered(key: str) -> None:
    with pytest.raises(SettingsError, match=f"{key}=auto is not decided"):
        dockerfile.render(settings_for(f"{key}=auto"))
