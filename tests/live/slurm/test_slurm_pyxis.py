"""profile --on slurm in an image by pyxis and enroot, where pyxis.sh has built them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.conftest import CACHED
from tests.live.hosts import BEAT, Invoked, await_true, error_line
from tests.live.slurm.conftest import Require, invoked_in, slurm_of
from tests.live.slurm.test_slurm_live import ON
from tests.live.slurm.test_slurm_ways import GLOO, OF_TORCH_1

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
BUILT = Path.home() / ".cache" / "gpu-profile" / "pyxis"
RC = 'if [ -s /etc/rc.local ]; then . /etc/rc.local; fi\nexec "$@"\n'


@pytest.fixture(scope="module")
def pyxis_conf(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    plugins = BUILT / "plugstack.conf"
    if not plugins.exists() or not shutil.which("mksquashfs"):
        pytest.skip("no pyxis: tests/live/slurm/pyxis.sh builds it, squashfs-tools makes images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{BUILT / 'bin'}:{os.environ['PATH']}")
        yield from slurm_of(require, tmp_path_factory.mktemp("pyxis"), f"PlugStackConfig={plugins}")


def _fstab(root: Path, nsys: str) -> Iterator[str]:
    """This machine's programs; a directory that is a link here is one there."""
    for path in map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives")):
        if path.is_symlink():
            (root / path.name).symlink_to(path.readlink())
        elif path.exists():
            yield f"{path} {path} none x-create=dir,rbind,ro 0 -1\n"
    tree = CACHED.parent if Path(nsys) == CACHED else Path(nsys).parent
    if Path("/usr") not in tree.parents:
        yield f"{tree} {tree} none x-create=dir,rbind,ro 0 -1\n"


@pytest.fixture
def image(nsys: str, tmp_path: Path) -> Path:
    root, file = tmp_path / "root", tmp_path / "image.sqsh"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "fstab").write_text("".join(_fstab(root, nsys)))
    (root / "etc" / "rc").write_text(RC)
    (root / "etc" / "environment").write_text(
        "PATH=/opt/bin:/usr/local/bin:/usr/bin:/bin\nWORD=image\nKEPT=image\n"
    )
    (root / "opt" / "bin").mkdir(parents=True)
    (root / "opt" / "bin" / "nsys").symlink_to(nsys)
    subprocess.run(["mksquashfs", root, file, "-quiet", "-no-progress", "-all-root"], check=True)
    return file


@pytest.fixture
def in_pyxis(tmp_path: Path, nsys: str, pyxis_conf: str, image: Path) -> Invoked:
    invoked = invoked_in(tmp_path, nsys, pyxis_conf)
    shared = tmp_path / "shared dir #1"
    shared.mkdir()
    settings = {"SLURM_DIR": str(shared), "SLURM_CONTAINER": "pyxis", "SLURM_IMAGE": str(image)}
    return Invoked(invoked.runs, {**invoked.environ, **settings})


def test_two_tasks_in_an_image(in_pyxis: Invoked, tmp_path: Path) -> None:
    """With PyTorch's version pyxis sets ranks by itself, and no sizes."""
    shows = BEAT + "e = os.environ; print('inside', *(e[n] for n in sys.argv[1:]))\n"
    told = ("WORD", "KEPT", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    words = ("--env", "WORD=it's; $HOME", "--env", "PYTORCH_VERSION=2", "--mount")
    command = ("--", "python3", "-c", shows + "print(os.listdir('/data'))", *told)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one").touch()
    ours = (*words, f"{tmp_path / 'data'}:/data:ro")
    done = in_pyxis.run("profile", *ON, "--nodes", "2", "--processes", "1", *ours, *command)
    output = (in_pyxis.latest() / "output.log").read_text()
    assert done.returncode == 0, done.stderr + output
    assert [report["rank"] for report in in_pyxis.record()["reports"]] == [0, 1]
    assert output.count("inside it's; $HOME image 2 1") == 2
    assert output.count("['one']") == 2


def test_torchrun_in_an_image(in_pyxis: Invoked, torch: None, tmp_path: Path) -> None:
    program = tmp_path / "meets.py"
    program.write_text(GLOO)
    met = tmp_path / "met"
    met.mkdir()
    settings = {"SLURM_TORCHRUN": "true", "USE_LIBUV": "0", **OF_TORCH_1}
    torchrun = Invoked(in_pyxis.runs, {**in_pyxis.environ, **settings})
    words = ("--mount", f"{tmp_path}:{tmp_path}", "--", "/usr/bin/python3", str(program), str(met))
    done = torchrun.run("profile", *ON, "--nodes", "2", "--processes", "2", *words)
    output = (torchrun.latest() / "output.log").read_text()
    assert done.returncode == 0, done.stderr + output
    assert [report["rank"] for report in torchrun.record()["reports"]] == [0, 1, 2, 3]
    assert sorted(path.name for path in met.iterdir()) == [f"met-{rank}" for rank in range(4)]


def test_stop_in_an_image(in_pyxis: Invoked) -> None:
    command = ("--", "python3", "-c", BEAT + "time.sleep(600)")
    handle = in_pyxis.detached(*ON, "--processes", "2", *command)
    await_true(lambda: "up 1" in in_pyxis.run("logs", "--job", handle).stdout, 240)
    assert in_pyxis.run("stop", "--job", handle).returncode == 0
    await_true(lambda: "it was stopped" in in_pyxis.run("status", "--job", handle).stdout)
    in_pyxis.run("fetch", "--job", handle)
    assert len(list(in_pyxis.latest().glob("*.nsys-rep"))) == 2


def test_an_image_that_is_not_there(in_pyxis: Invoked) -> None:
    done = in_pyxis.run("profile", *ON, "--image", "/nowhere/a.sqsh", "--", "true")
    assert done.returncode == 3
    assert "No such file or directory: /nowhere/a.sqsh" in error_line(done)


def test_a_directory_that_enroot_would_read_as_a_command(in_pyxis: Invoked) -> None:
    done = in_pyxis.run("profile", *ON, "--mount", "/$(touch pwned):/data", "--", "true")
    assert done.returncode == 2
    assert "cannot be mounted" in error_line(done)
