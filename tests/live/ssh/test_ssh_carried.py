"""profile --carry on a machine without nsys, over ssh and on this one."""

from pathlib import Path

import pytest

from tests.live.hosts import Invoked, error_line
from tests.live.test_docker_carried import NAPS

pytestmark = [pytest.mark.sshd, pytest.mark.docker, pytest.mark.image, pytest.mark.nsys]

PROGRAM = ("--gpus=0", "--carry", "--", "perl", "-e", f"{NAPS} exit 3")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Where runs and the carrier lie on the other side."""
    return tmp_path / "there"


@pytest.fixture
def carrying(invoked: Invoked, image: str, there: Path) -> Invoked:
    """The verbs with the image under test, and no nsys that settings name."""
    name, _, tag = image.rpartition(":")
    settings = {"NSYS": "", "IMAGE": name, "VERSION": tag, "SSH_DIR": str(there)}
    return Invoked(invoked.runs, {**invoked.environ, **settings})


def assert_profiled(carrying: Invoked, launcher: str, directory: str) -> None:
    done = carrying.run("profile", f"--on={launcher}", *PROGRAM)
    assert done.returncode == 5, done.stderr
    assert "the job failed with exit code 3" in done.stderr
    assert f"nsys is carried to the machine: {directory}" in done.stderr
    (report,) = carrying.record()["reports"]
    assert report["events"]["osrt"] >= 20


def test_nsys_is_copied_and_copied_again_where_it_is_damaged(
    carrying: Invoked, there: Path
) -> None:
    assert_profiled(carrying, "ssh", str(there))
    (copy,) = there.iterdir()
    (importer,) = copy.glob("carrier/nsight-systems/host-*/QdstrmImporter")
    with importer.open("r+b") as file:
        file.write(b"damaged")
    assert_profiled(carrying, "ssh", str(copy))
    assert list(there.iterdir()) == [copy], "the job's own directory is gone"


def test_this_machine_gets_it_too(carrying: Invoked) -> None:
    assert_profiled(carrying, "host", "")


def test_a_place_that_cannot_have_it_is_refused(carrying: Invoked, remote: Path) -> None:
    odd = Invoked(carrying.runs, {**carrying.environ, "SSH_DIR": str(remote)})
    refused = odd.run("profile", "--on=ssh", *PROGRAM)
    assert refused.returncode == 3
    assert "its path has a space or colon. Name another directory by SSH_DIR" in error_line(refused)
