"""What a wheel holds, and the verbs as they run from one without a clone beside them."""

import re
import sys
import zipfile
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, make_command
from gpu_profile.settings.places import ROOT

BUILD = (sys.executable, "-m", "hatchling", "build", "--target=wheel")
TIME = re.compile(r"\d{8}-\d{6}")
START = "from gpu_profile.cli.tasks import main\nmain()\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    argv = ("env", f"--chdir={ROOT}", *BUILD, f"--directory={folder}")
    built = process.run(Command(argv=argv))
    assert built.returncode == 0, built.last_line
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files with their modes, as an installer lays them down."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            path.chmod(entry.external_attr >> 16 & 0o777)
    return folder


def run_installed(unpacked: Path, *words: str, directory: Path) -> Result:
    script = directory / "gpu-profile"
    script.write_text(START)
    argv = ("env", f"--chdir={directory}", sys.executable, str(script), *words)
    return process.run(Command(argv=argv, env={"PYTHONPATH": str(unpacked)}))


def _list_tracked(*folders: str) -> set[str]:
    listed = process.run(make_command("git", "-C", str(ROOT), "ls-files", "-z", *folders))
    if listed.returncode:
        pytest.skip("no git repository")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def test_a_wheel_holds_what_the_verbs_read(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert _list_tracked("gpu_profile") <= names
    beside = _list_tracked("Container-Root", "k8s", "tests/image")
    assert {f"gpu_profile/_files/{name}" for name in beside} <= names
    assert not [name for name in names if name.endswith((".pyc", ".env"))]


@pytest.mark.parametrize(
    "words",
    [
        ("render",),
        ("build", "--unlocked", "--dry-run"),
        ("profile", "--dry-run", "--on=pytorchjob", "--set=REGISTRY=example.com"),
        ("profile", "--dry-run", "--on=ssh", "--host=u@h", "--gpus=0"),
    ],
    ids=lambda words: words[0],
)
def test_a_wheel_does_what_the_clone_does(
    words: tuple[str, ...], unpacked: Path, tmp_path: Path
) -> None:
    """The build's label is a hash of all its input files and of their executable bits."""
    texts = []
    for package, root in ((unpacked, unpacked / "gpu_profile" / "_files"), (ROOT, ROOT)):
        done = run_installed(package, *words, directory=tmp_path)
        assert done.returncode in (0, 3), done.last_line  # 3: no engine here
        text = done.stdout.replace(sys.executable, "PYTHON").replace(str(root), "ROOT")
        texts.append(TIME.sub("TIME", text))
    assert texts[0] == texts[1]
    assert str(unpacked) not in texts[0]


def test_a_wheel_finds_the_image_checks(unpacked: Path, tmp_path: Path) -> None:
    done = run_installed(unpacked, "test", "--dry-run", directory=tmp_path)
    assert f"{unpacked}/gpu_profile/_files/tests/image" in done.stdout, done.last_line
