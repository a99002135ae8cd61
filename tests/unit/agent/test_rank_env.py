"""Which rank this is, by whatever started it."""

from collections.abc import Mapping

import pytest
from rank_env import Place, node, place

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SRUN = {
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
}
STARTERS = [
    ({}, Place()),
    (TORCHRUN, Place(5, 1, 8, 4, True)),
    (OPEN_MPI, Place(3, 1, 4, 2, True)),
    ({"PMI_RANK": "1", "MPI_LOCALRANKID": "1", "PMI_SIZE": "2"}, Place(1, 1, 2, 1, True)),
    (SRUN, Place(2, 0, 6, 2, True)),
    # torchrun under mpirun or srun, one task a node: the innermost knows the rank.
    (OPEN_MPI | TORCHRUN, Place(5, 1, 8, 4, True)),
    (SRUN | TORCHRUN, Place(5, 1, 8, 4, True)),
    # pyxis sets rank and local rank in images with PYTORCH_VERSION, and enroot's hook the size.
    (SRUN | {"RANK": "2", "LOCAL_RANK": "0"}, Place(2, 0, 6, 2, True)),
    (SRUN | {"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "6"}, Place(2, 0, 6, 2, True)),
    # Somebody else's ranks in a task, of which one happens to have the task's numbers.
    (SRUN | {"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "9"}, Place(2, 0, 9, 1, True)),
    # A PyTorchJob's pod has its node's rank in RANK: mpirun's word is the process'.
    (OPEN_MPI | {"RANK": "7", "WORLD_SIZE": "8"}, Place(3, 1, 4, 2, True)),
    ({"RANK": "1", "WORLD_SIZE": "2"}, Place(1, 0, 2, 1, True)),
    # Slurm's batch script itself is no step: it has no tasks beside it.
    ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}, Place(0, 0, 1, 1, True)),
]


@pytest.mark.parametrize(("environ", "expected"), STARTERS)
def test_place(environ: Mapping[str, str], expected: Place) -> None:
    assert place(environ) == expected


def test_alone_nothing_is_added() -> None:
    """WORLD_SIZE alone would make some programs look for a rendezvous."""
    assert place({}).environment({}) == {}


def test_ranks_of_one_node_meet_on_it() -> None:
    environ = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "job-1"}
    added = place(environ).environment(environ)
    assert (added["RANK"], added["LOCAL_RANK"], added["WORLD_SIZE"]) == ("3", "1", "4")
    assert (added["MASTER_ADDR"], added["LOCAL_WORLD_SIZE"]) == ("127.0.0.1", "4")
    other = {**environ, "PMIX_NAMESPACE": "job-2"}
    assert place(other).environment(other)["MASTER_PORT"] != added["MASTER_PORT"]
    assert "MASTER_ADDR" not in place(OPEN_MPI).environment(OPEN_MPI)


@pytest.mark.parametrize("value", ["", "one", "1.5", "-1", "1e3"])
def test_no_number(value: str) -> None:
    with pytest.raises(ValueError, match=r"RANK='.*' is not a number"):
        place({"RANK": value, "LOCAL_RANK": "0"})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"PET_NODE_RANK": "1", "PET_NNODES": "2"}, (1, 2)),
        ({"PET_NODE_RANK": "1"}, (0, 1)),
        ({"SLURM_NODEID": "2", "SLURM_NNODES": "3"}, (2, 3)),
    ],
)
def test_node(environ: Mapping[str, str], expected: tuple[int, int]) -> None:
    assert node(environ) == expected
