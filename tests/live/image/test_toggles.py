"""Combinations of toggles, built and checked: the default is the image that all other tests use,
EFA by AWS's installer is in test_efa_installer.py, and here are nothing at all and everything,
whose tests meet over MPI."""

from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.image.checks import NOT_APPLICABLE, in_container, last_line
from tests.image.test_checks import CHECKS
from tests.live.image.builds import FULL, build, why

COMBINATIONS = {
    "none": (("INSTALL_MPI=false",), {"20-torch", "25-samples", "30-mpi", "35-sshd", "40-efa"}),
    "mpi-efa-tests": (FULL, {"20-torch", "25-samples"}),
}


@pytest.mark.parametrize(("words", "off"), COMBINATIONS.values(), ids=COMBINATIONS)
def test_built_and_checked(
    embedded: None, tmp_path: Path, words: tuple[str, ...], off: set[str]
) -> None:
    name = "gpu-profile-test-combination"
    log = build(tmp_path, name, *words)
    assert log is None, why(log)
    results = {check.stem: in_container(name, f"/test.d/{check.name}") for check in CHECKS}
    failed = {
        check: last_line(result)
        for check, result in results.items()
        if result.returncode not in (0, NOT_APPLICABLE)
    }
    assert failed == {}
    left_out = {check for check, result in results.items() if result.returncode == NOT_APPLICABLE}
    assert off <= left_out
    if words == FULL:
        mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "all_reduce_perf")
        said = in_container(name, *mpirun).stdout
        assert {line[:11] for line in said.splitlines()} == {"rank 0 of 2", "rank 1 of 2"}
    process.run(make_command("docker", "image", "rm", name))
