"""The image with nothing at all, built and checked.

The default is the image that all other tests use, EFA by AWS's installer is in
test_efa_installer.py, and everything, from a lock, in ../registry/test_locked_push.py.
"""

from pathlib import Path

from gpu_profile import process
from gpu_profile.command import make_command
from tests.live.image.builds import assert_checked, build, why


def test_nothing_is_built_and_checked(embedded: None, tmp_path: Path) -> None:
    name = "gpu-profile-test-combination"
    log = build(tmp_path, name, "INSTALL_MPI=false")
    assert log is None, why(log)
    assert_checked(name, off={"20-torch", "25-samples", "30-mpi", "35-sshd", "40-efa"})
    process.run(make_command("docker", "image", "rm", name))
