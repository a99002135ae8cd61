"""profile --on ssh from a user's own directory: a copy of it, and the environment of the host."""

from pathlib import Path

import pytest

from tests.live.hosts import Installed, Invoked, make_own_directory, read_place

pytestmark = [pytest.mark.nsys, pytest.mark.sshd]
WORDS = ("profile", "--on=ssh", "--gpus=0", "--sync=.")


@pytest.fixture
def installed(invoked: Invoked, tmp_path: Path) -> Installed:
    make_own_directory(tmp_path / "my code", "venv", ".venv")
    return Installed(invoked, tmp_path / "my code")


def test_the_job_works_in_a_copy_without_the_environment_of_this_machine(
    installed: Installed, remote: Path
) -> None:
    done = installed.run(*WORDS, "--", "python3", "app.py")
    assert done.returncode == 0, done.stderr
    place, prefix = read_place(installed)
    assert Path(place).parent.parent == remote
    assert not Path(prefix).is_relative_to(place)
    assert not Path(prefix).is_relative_to(installed.directory)


def test_the_environment_of_the_directory_there_is_used(
    installed: Installed, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    make_own_directory(there, ".venv")
    (there / "app.py").unlink()
    done = installed.run(*WORDS, f"--workdir={there}", "--", "python", "app.py")
    assert done.returncode == 0, done.stderr
    assert read_place(installed) == [str(there), str(there / ".venv")]
    assert (there / "app.py").exists()
    assert not (there / "venv").exists()
