"""Programs of images without nsys and Python are profiled; others are refused in one line."""

import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Result, make_command
from tests import invoked
from tests.live.torch_site import REAL_TRAIN, check_end, record_twice

pytestmark = [pytest.mark.docker, pytest.mark.image]

LIKENESS = Path(__file__).with_name("likeness.sh")
NAPS = "select(undef, undef, undef, 0.01) for 1..20;"
PROGRAM = ("perl", "-e", f"{NAPS} print qq($_=$ENV{{$_}}\\n) for sort keys %ENV; exit 3")
"""A C program that every Debian has. It prints its environment, and ends with 3."""

Likeness = Callable[..., str]


@pytest.fixture
def likeness(embedded: None) -> Iterator[Likeness]:
    """`likeness("bookworm", "USER 1000")`: the name of an image, which goes with the test."""
    names: list[str] = []

    def make(suite: str, *changes: str) -> str:
        names.append(f"gpu-profile-test-like-{os.getpid()}:{len(names)}")
        subprocess.run([LIKENESS, suite, names[-1], *changes], check=True)
        return names[-1]

    yield make
    process.run(make_command("docker", "image", "rm", "--force", *names))


def profile(image: str, theirs: str, directory: Path, *words: str, **settings: str) -> Result:
    """`profile --image THEIRS` where IMAGE is the image under test, without GPUs."""
    name, _, tag = image.rpartition(":")
    flags = ("--gpus=0", f"--image={theirs}", f"--name=like-{os.getpid()}")
    invoked.reporting_here(directory)
    return invoked.invoke(
        *("profile", *flags, *words), directory=directory, IMAGE=name, VERSION=tag, **settings
    )


def read_events(directory: Path) -> int:
    (path,) = directory.glob("*/run.json")
    (report,) = json.loads(path.read_text())["reports"]
    return int(report["events"]["osrt"])


@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie"])
def test_a_program_of_an_image_without_nsys_and_python(
    suite: str, image: str, likeness: Likeness, tmp_path: Path
) -> None:
    done = profile(image, likeness(suite), tmp_path, "--", *PROGRAM)
    assert done.returncode == 5, done.stderr
    assert "the job failed with exit code 3" in done.stderr
    assert read_events(tmp_path) >= 20
    (output,) = tmp_path.glob("*/output.log")
    variables = dict(
        line.partition("=")[::2] for line in output.read_text().splitlines() if "=" in line
    )
    assert "gpu-profile" not in variables.get("LD_LIBRARY_PATH", "") + variables["PATH"]
    assert "PYTHONHOME" not in variables
    told = invoked.invoke("diagnose", directory=tmp_path)
    assert "the reports hold no GPU work" in told.stdout


def test_an_image_with_its_own_user_entrypoint_and_read_only_root(
    image: str, likeness: Likeness, tmp_path: Path
) -> None:
    changes = ("USER 1000", 'ENTRYPOINT ["/usr/bin/env", "ENTERED=yes"]')
    theirs = likeness("bookworm", *changes)
    refused = profile(image, theirs, tmp_path, "--", *PROGRAM, RUN_OPTS="--read-only")
    assert refused.returncode == 3
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert "nsys records in /tmp, which cannot be written (Read-only file system)" in line
    assert "RUN_OPTS=--tmpfs=/tmp gives the container one" in line
    assert not list(tmp_path.glob("*/run.json")), "nothing was started"
    settings = {"RUN_OPTS": "--read-only --tmpfs=/tmp"}
    handle = profile(image, theirs, tmp_path, "--detach", "--", *PROGRAM, **settings).stdout.strip()
    done = invoked.invoke("fetch", "--job", handle, directory=tmp_path)
    assert done.returncode == 5, done.stderr
    assert read_events(tmp_path) >= 20
    (output,) = tmp_path.glob("*/output.log")
    assert "ENTERED=yes" in output.read_text().splitlines()


def test_an_image_with_musl_is_refused_before_the_job(
    image: str, likeness: Likeness, tmp_path: Path
) -> None:
    refused = profile(image, likeness("musl"), tmp_path, "--", "/bin/program")
    assert refused.returncode == 3
    assert "it has no glibc (Alpine has musl)" in refused.stderr
    assert not list(tmp_path.glob("*/run.json"))


def test_torch_profiler_records_windows_in_an_image_by_its_own_python(
    image: str, likeness: Likeness, tmp_path: Path
) -> None:
    """The torch of the image under test: its Kineto records the CPU."""
    (tmp_path / "train.py").write_text(REAL_TRAIN)
    words = ("--with=torch", "--record=manual", "--detach", f"--mount={tmp_path}")
    program = ("python3", f"{tmp_path}/train.py", f"{tmp_path}/enough")
    started = profile(image, image, tmp_path, *words, "--", *program)
    assert started.returncode == 0, started.stderr
    handle = started.stdout.split()[-1]
    call = functools.partial(invoked.invoke, directory=tmp_path)
    record_twice(call, handle)
    (tmp_path / "enough").touch()
    check_end(call, handle)
    assert not list(tmp_path.glob("like-*/*.nsys-rep"))
    bare = profile(image, likeness("trixie"), tmp_path, "--with=torch", "--", "python3", "x.py")
    assert (bare.returncode, bare.stdout) == (3, "")
    assert "has no python3 of 3.8 or newer, which --with torch needs" in bare.stderr
