"""Which settings file is read: never another program's `.env`."""

import os
from pathlib import Path

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.settings.lookup import SettingsFile, explain_foreign_file, find_settings_file
from gpu_profile.settings.settings import NAMES
from gpu_profile.settings.template import render_template

DJANGO = "DEBUG=on\nSECRET_KEY='django-insecure-1$x'\nDATABASE_URL=psql://u:p@127.0.0.1:8458/db\n"
OURS = "IMAGE=mine\nVERSION=3\n"


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's own settings; the working directory is empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "config" / "gpu-profile" / ".env"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_no_file_is_none() -> None:
    assert find_settings_file("", NAMES) == SettingsFile(None)


def test_a_file_here_of_our_keys_is_read(own_file: Path) -> None:
    write(own_file, OURS)
    here = write(Path(".env"), OURS)
    assert find_settings_file("", NAMES) == SettingsFile(here)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DJANGO, "DEBUG is not a setting of gpu-profile"),
        (f"{OURS}DJANGO_SETTINGS_MODULE=a\n", "DJANGO_SETTINGS_MODULE is not a setting"),
        ("export IMAGE=x\n", "it holds more than settings of gpu-profile"),
        ("IMAGE=$(hostname)\n", "it holds more than settings of gpu-profile"),
        ("IMGE=x\n", "IMGE is not a setting of gpu-profile. Did you mean IMAGE?"),
    ],
)
def test_another_program_s_file_is_left_alone(text: str, reason: str, own_file: Path) -> None:
    write(Path(".env"), text)
    file = find_settings_file("", NAMES)
    assert file.path is None
    assert file.note.startswith(f".env is not read: {reason}")
    assert "SECRET" not in file.note
    write(own_file, OURS)
    assert find_settings_file("", NAMES).path == own_file


@pytest.mark.parametrize(
    ("name", "is_misspelt"),
    [
        ("REPORT_DIRR", True),
        ("EPORT_DIR", True),
        ("REPORT-DIR", True),
        ("REPORT_DIRS_", False),
        ("DEBUG", False),
        ("X", False),
    ],
)
def test_a_key_one_letter_away_from_ours_is_misspelt(name: str, is_misspelt: bool) -> None:
    write(Path(".env"), f"DEBUG=1\n{name.removeprefix('DEBUG') or 'OTHER'}=1\n")
    file = find_settings_file("", NAMES)
    assert file.is_misspelt is is_misspelt
    assert ("Did you mean REPORT_DIR?" in file.note) is is_misspelt


def test_a_named_file_wins_and_must_exist(own_file: Path) -> None:
    write(Path(".env"), OURS)
    other = write(Path("gpu.env"), OURS)
    assert find_settings_file("gpu.env", NAMES) == SettingsFile(other)
    with pytest.raises(SettingsError, match=r"--env-file none\.env: no such file"):
        find_settings_file("none.env", NAMES)


def test_a_file_that_init_wrote_is_ours_even_with_a_misspelt_key() -> None:
    path = write(Path(".env"), f"{render_template()}IMGE=x\n")
    assert explain_foreign_file(path, NAMES) == ""


def test_a_file_of_another_user_is_left_alone() -> None:
    path = write(Path(".env"), OURS)
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 65534, 65534)
    assert find_settings_file("", NAMES).note == ".env is not read: it belongs to another user"


def test_a_home_that_may_not_be_entered_has_no_settings(own_file: Path) -> None:
    write(own_file, OURS)
    own_file.parent.chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        assert find_settings_file("", NAMES) == SettingsFile(None)
    finally:
        os.seteuid(user)
        own_file.parent.chmod(0o700)


def test_binary_text_is_another_program_s() -> None:
    Path(".env").write_bytes(b"\xff\xfe\x00IMAGE=x")
    assert find_settings_file("", NAMES).path is None
