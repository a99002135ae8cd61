"""Settings: precedence, sources, dependencies."""

import os
from pathlib import Path

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.settings import settings, template


def load(tmp_path: Path, text: str = "", *words: str, **environ: str) -> settings.Settings:
    path = tmp_path / ".env"
    path.write_text(text)
    return settings.load_settings(path, environ, words)


def test_command_line_over_environment_over_file_over_default(tmp_path: Path) -> None:
    text = "IMAGE=file\nVERSION=file\nCONTAINER=file\n"
    chosen = load(tmp_path, text, "IMAGE=line", IMAGE="environment", VERSION="environment")
    assert (chosen.image, chosen.version, chosen.container) == ("line", "environment", "file")
    assert chosen.shm_size == "1g"
    assert chosen.sources["IMAGE"] == "command line"
    assert chosen.sources["VERSION"] == "environment"
    assert chosen.sources["CONTAINER"] == f"{tmp_path / '.env'}:3"
    assert chosen.sources["SHM_SIZE"] == "default"


def test_no_file_is_all_defaults(tmp_path: Path) -> None:
    chosen = settings.load_settings(tmp_path / "none", {})
    assert str(chosen.image_ref) == "gpu-profile:latest"
    assert chosen.report_dir == Path("/tmp")


def test_proxies_keep_their_small_letters(tmp_path: Path) -> None:
    assert load(tmp_path, "http_proxy=http://proxy:3128\n").http_proxy == "http://proxy:3128"


def test_single_quotes_keep_a_dollar(tmp_path: Path) -> None:
    assert load(tmp_path, "RUN_OPTS='--env A=$HOME'\n").run_opts == "--env A=$HOME"


@pytest.mark.parametrize("text", ["true", "1", "YES", "on"])
def test_booleans_are_what_people_write(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, f"INSTALL_MPI={text}\n").component["INSTALL_MPI"] is True


def test_a_password_in_a_url_is_not_shown() -> None:
    assert settings.strip_credentials("http://me:secret@proxy:3128") == "http://***@proxy:3128"


def test_the_shipped_file_documents_every_key_and_is_all_defaults(
    pytestconfig: pytest.Config,
) -> None:
    """GOLDEN=write writes it anew."""
    shipped = pytestconfig.rootpath / ".env"
    if os.environ.get("GOLDEN") == "write":
        shipped.write_text(template.render_template(), encoding="utf-8")
    assert shipped.read_text() == template.render_template()
    assert settings.load_settings(shipped, {}) == settings.load_settings(Path("/nonexistent"), {})


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load_settings(tmp_path / ".env", {})
