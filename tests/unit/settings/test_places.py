"""Where state lies: in the user's directories, and in a clone where it has always been."""

from pathlib import Path

import pytest

from gpu_profile.settings import places


def test_the_installed_command_uses_the_user_s_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    assert places.state_folder() == tmp_path / "STATE" / "gpu-profile"
    assert places.cache_folder() == tmp_path / "CACHE" / "gpu-profile"
    assert places.user_settings_file() == tmp_path / "CONFIG" / "gpu-profile" / ".env"


def test_a_clone_keeps_its_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_MODE", places._Mode())
    places.use_clone_places()
    assert places.state_folder() == places.cache_folder() == Path(".gpu-profile")
