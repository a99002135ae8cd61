"""From a wheel to the answer, in a directory that holds another program's `.env`."""

import gzip
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_profile import __version__, process
from gpu_profile.command import Command, Result, make_command
from gpu_profile.settings.places import ROOT

PYTHONS = ("python3.10", "python3.11", "python3.12", "python3.13", "python3.14")
IMAGE = "gpu-profile-installed-test"
DJANGO = "DJANGO_SETTINGS_MODULE=site.settings\nSECRET_KEY='x$y'\nIMAGE=theirs\n"
TRAIN = """\
import os, time
from layers import compute

for step in range(20):
    compute(20_000)
    time.sleep(0.002)
with open("result.txt", "w") as file:
    file.write(f"{os.getuid()} {os.getcwd()}")
"""
LAYERS = "def compute(count):\n    return sum(number * number for number in range(count))\n"


@dataclass(frozen=True)
class Installed:
    """The console command of a clean environment, and a user's directory and home."""

    program: Path
    home: Path
    work: Path

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Result:
        """Run `gpu-profile WORDS` in the user's directory, with nothing of this repository."""
        places = {"HOME": str(self.home), "REPORT_DIR": str(self.home / "runs"), "IMAGE": IMAGE}
        unset = ("--unset=PYTHONPATH", "--unset=VIRTUAL_ENV", "--unset=XDG_CONFIG_HOME")
        argv = ("env", *unset, f"--chdir={self.work}", str(self.program), *words)
        return process.run(Command(argv=argv, env={**places, **(env or {})}))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = (sys.executable, "-m", "hatchling", "build", "--target=wheel", f"--directory={folder}")
    built = process.run(make_command("env", f"--chdir={ROOT}", *words))
    assert built.returncode == 0, built.last_line
    return next(folder.glob("*.whl"))


def find_python(name: str) -> str | None:
    """Return the path of `python3.12` that can make environments: on PATH, or one of pyenv's.

    pyenv has a program of that name on PATH also where its version is not switched on.
    """
    versions = Path.home() / ".pyenv" / "versions"
    others = versions.glob(f"{name.removeprefix('python')}.*/bin/{name}")
    for path in (shutil.which(name), *map(str, others)):
        if path and not process.run(make_command(path, "-c", "import ensurepip")).returncode:
            return path
    return None


@pytest.fixture(scope="session", params=["oldest", "newest"])
def program(
    request: pytest.FixtureRequest,
    wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
    require: Callable[[str, object], None],
) -> Path:
    """`gpu-profile` in a clean environment with the locked requirements, of the oldest and of the
    newest Python of this machine. `.ci/pythons` runs the unit tests on those between, too."""
    pythons = [path for name in PYTHONS if (path := find_python(name))]
    if len(pythons) < 2 and (request.param == "oldest" or not pythons):
        pytest.skip(f"this machine has {len(pythons)} of {', '.join(PYTHONS)}")
    python = pythons[0] if request.param == "oldest" else pythons[-1]
    venv = tmp_path_factory.mktemp(request.param) / "venv"
    made = process.run(make_command(python, "-m", "venv", "--without-pip", str(venv)))
    assert made.returncode == 0, made.last_line
    # pip takes 10 s of CPU for this; it installs the sdist below.
    uv = (sys.executable, "-m", "uv", "--quiet", "--no-config", "pip", "install")
    pip = (*uv, f"--python={venv / 'bin' / 'python'}")
    locked = ("--require-hashes", f"--requirement={ROOT / 'requirements.txt'}")
    downloaded = process.run(make_command(*pip, *locked))
    require("wheel", downloaded.returncode and f"no packages: {downloaded.last_line[-300:]}")
    installed = process.run(make_command(*pip, "--no-deps", str(wheel)))
    assert installed.returncode == 0, installed.last_line
    return venv / "bin" / "gpu-profile"


@pytest.fixture
def installed(program: Path, tmp_path: Path) -> Installed:
    (tmp_path / "home" / "runs").mkdir(parents=True)
    work = tmp_path / "work"
    work.mkdir()
    files = {".env": DJANGO, "train.py": TRAIN, "layers.py": LAYERS}
    for name, text in files.items():
        (work / name).write_text(text)
    return Installed(program, tmp_path / "home", work)


@pytest.fixture(scope="module")
def built_image(embedded: None) -> Iterator[None]:
    """The image that the installed command builds under a name of its own."""
    yield
    process.run(make_command("docker", "image", "rm", "--force", f"{IMAGE}:latest"))


def test_another_program_s_settings_are_left_alone(installed: Installed) -> None:
    assert installed.run("--version").stdout.startswith("gpu-profile ")
    shown = installed.run("config")
    assert shown.returncode == 0, shown.last_line
    assert ".env is not read: DJANGO_SETTINGS_MODULE is not a setting" in shown.stderr
    assert "theirs" not in shown.stdout
    assert installed.run("check").returncode == 2


NEWEST = pytest.mark.parametrize("program", ["newest"], indirect=True)
"""Jobs and images do not know which Python has started them."""


@NEWEST
def test_build_profile_and_answer(installed: Installed, built_image: None) -> None:
    built = installed.run("build", "--unlocked")
    assert built.returncode == 0, built.last_line[-2000:]
    lost = installed.run("profile", "--", "python3", "train.py")
    assert lost.returncode == 2
    assert "train.py is here and not in the container. Use --mount ." in lost.stderr
    assert not list((installed.home / "runs").iterdir())
    done = installed.run("profile", "--mount", ".", "--name=own", "--", "python3", "train.py")
    assert done.returncode == 0, done.last_line
    (run,) = (installed.home / "runs").iterdir()
    assert (run / "page.html").stat().st_size > 10_000
    assert f"page: {run}/page.html" in done.stdout
    answer = installed.run("diagnose", "--run=own", "--format=json")
    assert answer.returncode == 0, answer.last_line
    uid, folder = (installed.work / "result.txt").read_text().split()
    assert (installed.work / "result.txt").stat().st_mode & 0o022 == 0
    assert (int(uid), folder) == (installed.work.stat().st_uid, str(installed.work))
    checks = installed.run("test", "--", "-k", "manifest or requirements")
    assert checks.returncode == 0, checks.last_line
    # A run that was killed leaves the image.
    assert "`gpu-profile test` checks it" in built.stdout or "is up to date" in built.stdout


@NEWEST
def test_the_same_without_docker(installed: Installed, nsys: str) -> None:
    """`.venv` here is an environment of the user's own, in which the program runs."""
    python = installed.program.with_name("python")
    own = process.run(make_command(str(python), "-m", "venv", str(installed.work / ".venv")))
    assert own.returncode == 0, own.last_line
    train = installed.work / "train.py"
    train.write_text(f"{TRAIN}import sys\nprint('prefix', sys.prefix)\n")
    words = ("profile", "--on=host", "--name=own", "--", "python", "train.py")
    done = installed.run(*words, env={"NSYS": nsys})
    assert done.returncode == 0, done.last_line
    (run,) = (installed.home / "runs").iterdir()
    assert (run / "page.html").exists()
    assert f"prefix {installed.work}/.venv" in (run / "output.log").read_text()


@pytest.fixture(scope="module")
def from_sdist(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str, object], None]
) -> Path:
    """`gpu-profile` of an environment that pip has installed from the sdist alone."""
    folder = tmp_path_factory.mktemp("sdist")
    words = (sys.executable, "-m", "hatchling", "build", "--target=sdist", f"--directory={folder}")
    built = process.run(make_command("env", f"--chdir={ROOT}", *words))
    assert built.returncode == 0, built.last_line
    made = process.run(make_command(sys.executable, "-m", "venv", str(folder / "venv")))
    assert made.returncode == 0, made.last_line
    python = str(folder / "venv" / "bin" / "python")
    (sdist,) = folder.glob("*.tar.gz")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
    done = process.run(make_command(*pip, str(sdist)))
    require("wheel", done.returncode and f"no packages: {done.last_line[-300:]}")
    return Path(python).with_name("gpu-profile")


def test_an_sdist_installs_the_whole_command(from_sdist: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / ".env").write_text(DJANGO)
    installed = Installed(from_sdist, tmp_path / "home", tmp_path)
    assert installed.run("--version").stdout == f"gpu-profile {__version__}\n"
    recording = ROOT / "tests" / "data" / "h200x4-ddp" / "rank0.sqlite.gz"
    (tmp_path / "rank0.sqlite").write_bytes(gzip.decompress(recording.read_bytes()))
    read = installed.run("stats", "--table=cuda_gpu_kern_sum", "--format=csv", "--report=.")
    assert read.returncode == 0, read.last_line
    assert read.stdout.startswith("Time (%),Total Time (ns),Instances,"), read.stdout[:300]
    planned = installed.run("build", "--unlocked", "--dry-run")
    assert planned.returncode in (0, 3), planned.last_line  # 3: no engine here
    checks = installed.run("test", "--dry-run")
    assert f"{from_sdist.parents[1]}/lib/" in checks.stdout, checks.last_line
