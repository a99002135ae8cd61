"""Find this process's rank and make its torchrun environment. Python 3.8, stdlib only."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The variables of each starter of ranks: rank, local rank, world size, local world size. A row
# applies when rank and local rank are both set: a pod of a PyTorchJob has RANK alone, which is the
# node's rank. Slurm's batch script has SLURM_PROCID=0 too, but only a step has
# SLURM_STEP_NUM_TASKS: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
_STARTERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
)
_NODES = (
    ("PET_NODE_RANK", "PET_NNODES"),
    ("NODE_RANK", "NNODES"),
    ("SLURM_NODEID", "SLURM_NNODES"),
)
_JOB_IDS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "SLURM_STEP_ID")


class Place(NamedTuple):
    """The rank of this process. `started` is False if nothing started ranks: there is only one."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    started: bool = False

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return torchrun's variables.

        MASTER_ADDR and MASTER_PORT are among them if all ranks are on one node.
        """
        if not self.started:
            return {}
        variables = {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
        }
        if self.local_world_size == self.world_size > 1:
            variables["MASTER_ADDR"] = environ.get("MASTER_ADDR", "127.0.0.1")
            variables["MASTER_PORT"] = environ.get("MASTER_PORT", _port(environ))
        return variables


def place(environ: Mapping[str, str]) -> Place:
    """Return this process's rank. Raises ValueError for a variable that is no number."""
    rows = [row for row in _STARTERS if row[0] in environ and row[1] in environ]
    if rows:
        rank, local_rank, size, local_size = _choose_row(environ, rows)
        world = _number(environ, size, 1)
        local = _number(environ, local_size, 1)
        return Place(_number(environ, rank), _number(environ, local_rank), world, local, True)
    if "RANK" in environ:
        return Place(_number(environ, "RANK"), 0, _number(environ, "WORLD_SIZE", 1), 1, True)
    return Place()


def _choose_row(
    environ: Mapping[str, str], rows: Sequence[tuple[str, str, str, str]]
) -> tuple[str, str, str, str]:
    """Return the first row, or one with the same ranks that has both sizes too.

    pyxis sets torchrun's RANK and LOCAL_RANK in images that have PYTORCH_VERSION, but not all
    sizes.
    """
    first = rows[0]
    for row in rows:
        same = [environ[name] for name in row[:2]] == [environ[name] for name in first[:2]]
        if same and row[2] in environ and row[3] in environ:
            world = _number(environ, row[2])
            if _number(environ, first[2], world) == world:
                return row
    return first


def node(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return (rank of this node, number of nodes), set by an operator, Slurm or the user."""
    for rank, count in _NODES:
        if rank in environ and count in environ:
            return _number(environ, rank), _number(environ, count)
    return 0, 1


def _number(environ: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return the leading integer of a variable.

    Slurm writes `2(x3)` for two tasks on each of three nodes, the operators `1:4` for a range.
    """
    if name not in environ:
        return default
    match = re.match(r"\d+(?![\w.-])", environ[name])
    if match is None:
        raise ValueError(f"{name}={environ[name]!r} is not a number")
    return int(match.group())


def _port(environ: Mapping[str, str]) -> str:
    """Return a port from 20000 to 29999, the CRC-32 of the job's ids.

    All ranks of a job get the same port; another job on the node gets a different one.
    """
    job = ".".join(environ.get(name, "") for name in _JOB_IDS)
    return str(20000 + zlib.crc32(job.encode()) % 10000)
