"""REQUIREMENTS: which files a build takes, and that their text decides about the stage."""

from pathlib import Path

import pytest

from gpu_profile.components.requirements import read_requirements
from gpu_profile.errors import SettingsError
from gpu_profile.image.auto import Decided
from gpu_profile.image.build import BuildxOptions, make_build_command
from gpu_profile.image.dockerfile import render_dockerfile
from gpu_profile.image.downloads import Downloads
from gpu_profile.settings.places import ROOT
from tests.unit.settings_for import settings_for

GOOD = f"""\
# what train.py imports
einops
tqdm>=4.66 ; python_version > "3.9"
transformers[torch]==4.57.1 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
pkg @ https://example.com/pkg-1.0-py3-none-any.whl
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "requirements.txt"
    path.write_text(text)
    return path


def test_names_versions_hashes_and_markers_are_taken(tmp_path: Path) -> None:
    assert read_requirements(str(write(tmp_path, GOOD))) == GOOD


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-r other.txt\n", "-r is an option. Name packages only"),
        ("-e .\n", "-e is an option"),
        ("einops\n--index-url https://u:p@host/simple\n", "--index-url is an option"),
        ("./mylib\n", "./mylib is not a package of an index"),
        ("/opt/mylib\n", "/opt/mylib is not a package of an index"),
        ("mylib @ file:///opt/mylib\n", "mylib is not a package of an index"),
        ("mylib @ git+https://user:hush@host/mylib\n", "holds a password in a URL"),
        ("x" * 600_000, "is larger than 500 KiB"),
    ],
)
def test_what_the_build_would_not_have_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        read_requirements(str(write(tmp_path, text)))
    assert reason in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_no_text_is_one_line(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match="Give a requirements file"):
        read_requirements(str(path))


def test_another_text_is_another_stage(tmp_path: Path) -> None:
    path = write(tmp_path, "einops\n")
    first = render_dockerfile(settings_for(f"REQUIREMENTS={path}"))
    assert 'COPY --from=torch /out/ /\nARG REQUIREMENTS="sha256:' in first
    assert "--mount=type=secret,id=requirements \\" in first
    assert str(tmp_path) not in first
    write(tmp_path, "einops\ntqdm\n")
    assert render_dockerfile(settings_for(f"REQUIREMENTS={path}")) != first


def test_the_file_reaches_the_build_as_a_secret(tmp_path: Path) -> None:
    path = write(tmp_path, "einops\n")
    decided = Decided(settings=settings_for(f"REQUIREMENTS={path}"), decisions={})
    command = make_build_command(decided, Downloads(), BuildxOptions(root=ROOT))
    assert f"--secret=id=requirements,src={path}" in command.argv
