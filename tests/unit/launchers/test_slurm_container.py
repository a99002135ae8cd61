"""How an image is written for pyxis, what may be mounted, and why a container did not start."""

from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job import Mount
from gpu_profile.launchers.slurm.commands import SlurmCluster
from gpu_profile.launchers.slurm.container import Container, find_container_error, mount_itself
from gpu_profile.launchers.slurm.sbatch import Script

DATA = Mount(source=Path("/fsx/data"), target="/data", read_only=True)


@pytest.mark.parametrize(
    ("image", "written"),
    [
        ("ubuntu:24.04", "ubuntu:24.04"),
        ("lab/ubuntu", "lab/ubuntu"),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "nvcr.io#nvidia/pytorch:24.05-py3"),
        ("127.0.0.1:5000/gpu-profile:v1", "127.0.0.1:5000#gpu-profile:v1"),
        ("AWS@r.example#lab/a:1", "AWS@r.example#lab/a:1"),
        ("docker://r.example/a:1", "docker://r.example/a:1"),
        ("dockerd://gpu-profile:latest", "dockerd://gpu-profile:latest"),
        ("/fsx/a.sqsh", "/fsx/a.sqsh"),
        ("./a.sqsh", "./a.sqsh"),
        # Without a dot or a slash before it, pyxis would look for it in a registry.
        ("a.sqsh", "./a.sqsh"),
        ("images/a.sqsh", "./images/a.sqsh"),
    ],
)
def test_spellings_of_pyxis(image: str, written: str) -> None:
    options = Container(image=image).srun_options((mount_itself("/fsx/r"),), "")
    assert options == (f"--container-image={written}", "--container-mounts=/fsx/r:/fsx/r")


def test_mounts_and_variables_of_a_job() -> None:
    mounts = (mount_itself("/fsx/a b"), DATA)
    pyxis = Container(image="a").srun_options(mounts, "/fsx/a b", {"WORD": "", "A": ""})
    assert pyxis[1:] == (
        "--container-mounts=/fsx/a b:/fsx/a b,/fsx/data:/data:ro",
        "--container-workdir=/fsx/a b",
        "--container-env=A,WORD",
    )
    apptainer = Container(image="a.sif", tool="apptainer").prefix(mounts, "", gpus=False)
    assert apptainer[2:4] == ("--bind=/fsx/a b:/fsx/a b", "--bind=/fsx/data:/data:ro")


@pytest.mark.parametrize("path", ["/a:b", "/a,b", "/$(touch pwned)", "/`id`", '/a"b', "/a\\b"])
def test_paths_that_enroot_would_read_otherwise(path: str) -> None:
    with pytest.raises(SettingsError, match="cannot be mounted"):
        Container(image="a").srun_options((Mount(source=Path("/a"), target=path),), "")


NO_FILE = """\
slurmstepd-n1: error: pyxis: child 27622 failed with error code: 1
slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /fsx/a.sqsh
slurmstepd-n1: error: pyxis: printing enroot log file:
slurmstepd-n1: error: pyxis:     [ERROR] No such file or directory: /fsx/a.sqsh
slurmstepd-n1: error: Failed to invoke spank plugin stack
srun: error: n1: task 0: Exited with exit code 1
"""
NO_REGISTRY = """\
slurmstepd-n1: error: pyxis: failed to import docker image: a
slurmstepd-n1: error: pyxis:     [INFO] Querying registry for permission grant
slurmstepd-n1: error: pyxis:     curl: (6) Could not resolve host: registry.example.com
"""
NO_MOUNT = "slurmstepd-n1: error: pyxis: --container-mounts: source path does not exist: /nope\n"
NO_PYTHON = "slurmstepd-n2: error: execve(): python3: No such file or directory\nsrun: error: n2\n"
NO_PYXIS = "srun: unrecognized option '--container-image=a'\nTry \"srun --help\" for more\n"


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        (NO_FILE, "No such file or directory: /fsx/a.sqsh"),
        (NO_REGISTRY, "(6) Could not resolve host: registry.example.com"),
        (NO_MOUNT, "--container-mounts: source path does not exist: /nope"),
        (NO_PYTHON, "execve(): python3: No such file or directory"),
        (NO_PYXIS, "this Slurm has no pyxis: ask for it, or set SLURM_CONTAINER=apptainer"),
        ("srun: error: Unable to allocate resources\n", ""),
    ],
)
def test_why_a_container_did_not_start(stderr: str, why: str) -> None:
    assert find_container_error(stderr) == why


def test_a_node_that_did_not_answer_says_why() -> None:
    failed = Result(returncode=1, stderr=NO_FILE)
    cluster = SlurmCluster(script=Script(container=Container(image="/fsx/a.sqsh")))
    with pytest.raises(ToolError, match=r"No such file or directory: /fsx/a\.sqsh"):
        cluster.check_result(failed)
    with pytest.raises(ToolError, match="task 0: Exited with exit code 1"):
        SlurmCluster().check_result(failed)
