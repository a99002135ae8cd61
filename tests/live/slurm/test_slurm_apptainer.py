"""profile --on slurm in an image by apptainer, where apptainer.sh has built one."""

import os
import shutil
from pathlib import Path

import pytest

from tests.live.hosts import BEAT, Invoked
from tests.live.slurm.test_slurm_live import ON

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
BUILT = Path.home() / ".cache" / "gpu-profile" / "apptainer" / "bin"
BOUND = ("/usr", "/lib", "/lib64", "/bin")


@pytest.fixture
def sandbox(nsys: str, tmp_path: Path) -> Path:
    """An image that is a directory; its programs are this machine's."""
    box = tmp_path / "box"
    for name in (*BOUND, "/etc", "/tmp", "/var/tmp", "/proc", "/sys", "/dev", "/root", "/home"):
        (box / name.lstrip("/")).mkdir(parents=True)
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", box / "etc" / name)
    (box / "opt" / "bin").mkdir(parents=True)
    (box / "opt" / "bin" / "nsys").symlink_to(nsys)
    return box


@pytest.fixture
def in_apptainer(invoked: Invoked, nsys: str) -> Invoked:
    path = f"{BUILT}:{os.environ['PATH']}"
    if shutil.which("apptainer", path=path) is None:
        pytest.skip("no apptainer: tests/live/slurm/apptainer.sh builds one")
    bound = (*(name for name in BOUND if Path(name).exists()), str(Path(nsys).parent))
    settings = {
        "PATH": path,
        "NSYS": "",
        "SLURM_CONTAINER": "apptainer",
        "APPTAINER_BIND": ",".join(bound),
        "APPTAINERENV_PREPEND_PATH": "/opt/bin",
    }
    return Invoked(invoked.runs, {**invoked.environ, **settings})


def test_two_tasks_in_an_image(in_apptainer: Invoked, sandbox: Path, tmp_path: Path) -> None:
    show = BEAT + "time.sleep(0.5); print('inside', os.environ['APPTAINER_CONTAINER'])"
    words = ("--nodes", "2", "--processes", "1", "--image", str(sandbox))
    done = in_apptainer.run("profile", *ON, *words, "--", "python3", "-c", show)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in in_apptainer.record()["reports"]] == [0, 1]
    output = (in_apptainer.latest() / "output.log").read_text()
    assert output.count(f"inside {sandbox}") == 2
