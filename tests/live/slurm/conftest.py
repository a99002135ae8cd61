"""A real Slurm of two nodes on this machine, for these tests only."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.hosts import Invoked

SLURM = Path(__file__).with_name("slurm.sh")


@pytest.fixture(scope="session")
def slurm_conf(
    require: Callable[[str, object], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("slurm")
    started = subprocess.run(
        [SLURM, "start", directory], capture_output=True, text=True, check=False
    )
    require("slurm", started.returncode and (started.stderr.strip() or "it did not start"))
    yield started.stdout.strip()
    subprocess.run([SLURM, "stop", directory], check=True)


@pytest.fixture
def invoked(tmp_path: Path, nsys: str, slurm_conf: str) -> Invoked:
    runs = tmp_path / "runs"
    runs.mkdir()
    shared = tmp_path / "shared dir; $(touch pwned) #1"
    shared.mkdir()
    settings = {"NSYS": nsys, "SLURM_CONF": slurm_conf, "SLURM_DIR": str(shared)}
    return Invoked(runs, {**os.environ, **settings})


@pytest.fixture
def slurm(slurm_conf: str) -> Callable[..., str]:
    """`slurm("scontrol", …)`: what Slurm's own command says."""

    def run(*argv: str) -> str:
        environ = {**os.environ, "SLURM_CONF": slurm_conf}
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
        return done.stdout

    return run
