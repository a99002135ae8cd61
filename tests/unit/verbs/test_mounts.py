"""--mount: a directory under its own path where the job works, or SOURCE:/TARGET[:ro]."""

from pathlib import Path

import pytest

from gpu_profile.cli.jobs import launcher_of
from gpu_profile.errors import SettingsError
from gpu_profile.job import Mount
from gpu_profile.verbs.jobs.from_flags.mounts import find_workdir, parse_mount
from tests.unit.settings_for import settings_for


def test_a_directory_has_its_own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_mount(".") == Mount(source=tmp_path, target=str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path)
    assert parse_mount("link").source == tmp_path


def test_source_and_target_are_as_before(tmp_path: Path) -> None:
    assert parse_mount("/a:/b:ro") == Mount(source=Path("/a"), target="/b", read_only=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/", "/ is the home directory or holds it"),
        ("~", "is the home directory or holds it"),
        ("~/..", "is the home directory or holds it"),
        ("/usr", "/usr is the image's own"),
        ("none", "there is no such directory"),
        ("/etc/passwd", "there is no such directory"),
    ],
)
def test_what_a_job_must_not_have_is_refused(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(SettingsError, match="--mount") as refused:
        parse_mount(text)
    assert reason in str(refused.value)


def test_a_link_to_the_home_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "up").symlink_to(tmp_path)
    with pytest.raises(SettingsError, match="is the home directory"):
        parse_mount(str(tmp_path / "work" / "up"))


def test_another_machine_has_no_directory_of_this_one(tmp_path: Path) -> None:
    docker, pods = (launcher_of(name, settings_for()) for name in ("docker", "mpijob"))
    assert find_workdir(["/a:/b", str(tmp_path)], docker) == str(tmp_path)
    assert find_workdir(["/a:/b"], pods) == ""
    with pytest.raises(SettingsError, match="mpijob has no container here"):
        find_workdir([str(tmp_path)], pods)
