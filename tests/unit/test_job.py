"""Addresses, handles, ranks and commands: what parses, what prints, what is refused."""

from pathlib import Path

import pytest

from gpu_profile.command import Command, make_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.job import Handle, parse_ranks

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu-profile", ("", "gpu-profile", "", "")),
        ("gpu-profile:v1", ("", "gpu-profile", "v1", "")),
        ("team/gpu-profile:v1", ("", "team/gpu-profile", "v1", "")),
        ("localhost:5000/a/b:c", ("localhost:5000", "a/b", "c", "")),
        ("127.0.0.1:5000/a", ("127.0.0.1:5000", "a", "", "")),
        (f"nvcr.io/nvidia/cuda@{DIGEST}", ("nvcr.io", "nvidia/cuda", "", DIGEST)),
        (f"r.io/a:b@{DIGEST}", ("r.io", "a", "b", DIGEST)),
    ],
)
def test_an_image_address_parses(text: str, parts: tuple[str, ...]) -> None:
    image = ImageRef.parse(text)
    assert (image.registry, image.name, image.tag, image.digest) == parts
    assert ImageRef.parse(str(image)).name == image.name


def test_a_digest_wins_over_a_tag() -> None:
    assert str(ImageRef(name="a", tag="b", digest=DIGEST)) == f"a@{DIGEST}"


@pytest.mark.parametrize(
    "text", ["", "/", "//a", "A", "a b", "a:", "-a", "a:b:c", "a@sha256:12", "a;echo", "r.io/"]
)
def test_what_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not an image"):
        ImageRef.parse(text)


@pytest.mark.parametrize("text", ["slurm://1234", "mpijob://namespace/name", "docker://train-1"])
def test_a_handle_survives_the_round_trip(text: str) -> None:
    assert str(Handle.parse(text)) == text


@pytest.mark.parametrize("text", ["", "1234", "slurm:1234", "slurm://", "k8s://a", "://a"])
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a job handle"):
        Handle.parse(text)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("all", None), ("0", {0}), ("0,3", {0, 3}), ("0-3", {0, 1, 2, 3}), ("1, 4-5", {1, 4, 5})],
)
def test_ranks_parse(text: str, ranks: set[int] | None) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["", "x", "0,", "-1", "3-1", "0..3", "0;1"])
def test_what_is_no_list_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--ranks"):
        parse_ranks(text)


def test_a_command_prints_the_line_to_paste() -> None:
    assert str(make_command("docker", "run", "a b", "$HOME")) == "docker run 'a b' '$HOME'"


def test_a_command_hides_its_secrets() -> None:
    login = Command(argv=("x",), env={"TOKEN": "hush", "A": "b c"}, secrets=frozenset({"TOKEN"}))
    assert str(login) == "A='b c' TOKEN=*** x"


def test_a_command_shows_its_files() -> None:
    tar = Command(argv=("tar", "-x"), stdin_file=Path("a b"), stdout_file=Path("c"))
    assert str(tar) == "tar -x < 'a b' > c"


def test_an_error_is_one_line_with_a_next_step() -> None:
    error = GpuProfileError("it broke:\n  badly.", "Mend it")
    assert str(error) == "it broke: badly. Mend it."
