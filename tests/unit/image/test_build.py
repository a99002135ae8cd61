"""The one build command: what is in its words, and what must not be."""

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.command import Command, Result
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.image import build, dockerfile
from gpu_profile.image.auto import Decided
from gpu_profile.image.build import BuildxOptions
from gpu_profile.image.downloads import Downloads
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.build import run_build
from tests.unit.settings_for import settings_for

ROOT = Path(__file__).parents[3]
OPTIONS = BuildxOptions(root=ROOT, plain=True)


def _decided(settings: Settings, **made: str) -> Decided:
    return Decided(settings=settings, decisions=made)


def _build(settings: Settings, downloads: Downloads | None = None) -> Command:
    return build.make_build_command(_decided(settings), downloads or Downloads(), OPTIONS)


def test_the_context_is_the_repository_and_the_result_is_loaded() -> None:
    argv = _build(settings_for()).argv
    assert argv[:3] == ("docker", "buildx", "build")
    assert argv[-1] == str(ROOT)
    assert {"--load", "--progress=plain", "--provenance=false"} <= set(argv)
    assert "--tag=gpu-profile:latest" in argv


def test_no_secret_is_in_the_words(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificates")
    settings = settings_for(
        f"CA_BUNDLE={bundle}",
        "http_proxy=http://me:hunter2@proxy.example",
        "no_proxy=.example",
        "INSTALL_EFA=true",
        "EFA_URL=https://me:hunter4%20x@mirror.example/efa",
    )
    command = _build(settings, Downloads(pip_conf="[global]\nindex-url = https://a:hunter3@b/\n"))
    assert f"--secret=id=ca_bundle,src={bundle}" in command.argv
    assert "--build-arg=no_proxy" in command.argv
    assert "--build-arg=http_proxy" not in command.argv, "the builder's history has arguments"
    assert command.env["GPU_PROFILE_PROXIES"] == "http_proxy=http://me:hunter2@proxy.example\n"
    netrc = 'machine mirror.example login me password "hunter4 x"\n'
    assert command.env["GPU_PROFILE_NETRC"] == netrc
    assert "hunter" not in str(command)
    assert "hunter" not in command.stdin
    assert 'ARG EFA_URL="https://mirror.example/efa"' in command.stdin
    assert command.stdin.count("type=secret,id=netrc") == command.stdin.count("id=pip_conf")


def test_a_changed_password_builds_nothing_anew() -> None:
    inputs = {
        build.inputs_hash(settings_for("INSTALL_EFA=true", f"EFA_URL=https://{login}@h/efa"), ROOT)
        for login in ("me:one", "me:two", "you:three")
    }
    assert len(inputs) == 1


def test_two_passwords_for_one_host_are_refused() -> None:
    urls = ("EFA_URL=https://a:one@mirror/efa", "NSYS_URL=https://a:two@mirror/nsys")
    settings = settings_for("INSTALL_EFA=true", "NSYS_SOURCE=nvidia", *urls)
    with pytest.raises(SettingsError, match="another user or password for mirror"):
        _build(settings)


def test_without_a_password_no_step_asks_for_one() -> None:
    assert "id=netrc" not in _build(settings_for()).stdin
    assert "id=proxies" not in _build(settings_for("http_proxy=http://proxy:3128")).stdin


def test_options_of_the_user_are_words_and_may_push() -> None:
    argv = _build(settings_for("BUILD_OPTS=--push --build-arg 'A=b c'")).argv
    assert argv[-4:-1] == ("--push", "--build-arg", "A=b c")
    assert "--load" not in argv


def test_caches_and_attestations_when_asked() -> None:
    options = BuildxOptions(root=ROOT, cache_from="type=registry,ref=r", cache_to="x", sbom=True)
    argv = build.make_build_command(_decided(settings_for()), Downloads(), options).argv
    assert {"--cache-from=type=registry,ref=r", "--cache-to=x", "--sbom=true"} <= set(argv)
    assert "--provenance=false" not in argv


def test_decisions_are_recorded() -> None:
    decided = replace(_decided(settings_for(), NSYS_SOURCE="nvidia"), base_digest="sha256:1")
    command = build.make_build_command(decided, Downloads(), OPTIONS)
    assert "--label=org.opencontainers.image.base.digest=sha256:1" in command.argv
    assert '--label=io.github.gpu-profile.decided={"NSYS_SOURCE": "nvidia"}' in command.argv


def test_the_inputs_hash_sees_settings_options_content_and_mode(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "Container-Root", tmp_path / "Container-Root")
    source = tmp_path / "nccl-tests"
    source.mkdir()
    given = ("INSTALL_TESTS=true", f"NCCL_TESTS_URL={source}")

    def inputs(*words: str) -> str:
        return build.inputs_hash(settings_for(*words), tmp_path)

    hashes = [inputs(), inputs("INSTALL_MPI=false"), inputs("BUILD_OPTS=--pull"), inputs(*given)]
    (source / "main.cu").write_text("int main() {}")
    hashes.append(inputs(*given))
    startup = tmp_path / "Container-Root" / "startup.sh"
    startup.chmod(0o644)
    hashes.append(inputs())
    startup.write_text("#!/bin/sh\n")
    hashes.append(inputs())
    assert len(set(hashes)) == 7
    assert inputs() == hashes[-1]


@pytest.mark.parametrize(
    ("code", "labels", "same"),
    [
        (0, "hash sha256:1\n", True),
        (0, "other sha256:1\n", False),
        (0, "hash sha256:2\n", False),
        (0, "<no value> <no value>\n", False),
        (1, "", False),
    ],
)
def test_an_image_of_the_same_inputs_on_the_same_base(code: int, labels: str, same: bool) -> None:
    steps = build.is_built("gpu-profile:latest", "hash", "sha256:1")
    assert next(steps).argv[:3] == ("docker", "image", "inspect")
    with pytest.raises(StopIteration) as stop:
        steps.send(Result(returncode=code, stdout=labels))
    assert stop.value.value is same


def test_a_tag_of_the_inputs() -> None:
    inputs = build.inputs_hash(settings_for(), ROOT)
    name = build.image_name(settings_for("VERSION=auto", "REGISTRY=r.example:5000"), inputs)
    assert name == f"r.example:5000/gpu-profile:{inputs[:16]}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("CA_BUNDLE=/no/such/file", "CA_BUNDLE is '/no/such/file', which is not a file"),
        ("NCCL_TESTS_URL=/no/such/dir", "'/no/such/dir' is not a directory"),
    ],
)
def test_paths_that_are_not_there(override: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        _build(settings_for("INSTALL_TESTS=true", override))


@pytest.mark.parametrize("key", ["BASE_IMAGE", "NSYS_SOURCE", "INSTALL_TORCH"])
def test_nothing_undecided_is_rendered(key: str) -> None:
    with pytest.raises(SettingsError, match=f"{key}=auto is not decided"):
        dockerfile.render_dockerfile(settings_for(f"{key}=auto"))


BUILDX = """
folder=$(mktemp -d "${TMPDIR:-/tmp}/dockerfileXXXXXXXX")
cat >"$folder/Dockerfile"
ls "$TMPDIR"/dockerfile*/Dockerfile
exit %d
"""
"""buildx 0.13 with `--file=-`."""


@pytest.mark.parametrize("code", [0, 1])
def test_the_dockerfile_that_buildx_leaves_is_removed(
    code: int,
    tmp_path: Path,
    fake_tool: Callable[..., Callable[[], list[list[str]]]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    calls = fake_tool("docker", f"case $2 in build) {BUILDX % code} ;; esac")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    command = _build(settings_for())
    with pytest.raises(GpuProfileError) if code else contextlib.nullcontext():
        run_build(command, verbose=True)
    assert calls()[0] == list(command.argv[1:])
    (written,) = [word for word in capfd.readouterr().err.split() if word.endswith("/Dockerfile")]
    assert written.startswith(f"{tmp_path}/temporary/")
    assert not Path(written).exists()
    assert list((tmp_path / "temporary").iterdir()) == []
