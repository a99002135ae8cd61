"""Which rank this process is, and what environment its command gets. Python 3.8, stdlib only."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What starts ranks: rank, local rank, world size, local world size. A row counts where its rank
# and local rank are both set: PyTorchJob's pods have a RANK that is the node's, and no other.
# Slurm's batch script has SLURM_PROCID=0 too, but only a step has the step's number of tasks.
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
    """`started`: something else started the ranks and says so; otherwise this is the only one."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    started: bool = False

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """torchrun's variables, and a rendezvous where all ranks are of one node."""
        if not self.started:
            return {}
        found = {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
        }
        if self.local_world_size == self.world_size > 1:
            found["MASTER_ADDR"] = environ.get("MASTER_ADDR", "127.0.0.1")
            found["MASTER_PORT"] = environ.get("MASTER_PORT", _port(environ))
        return found


def place(environ: Mapping[str, str]) -> Place:
    """Raises ValueError where a variable that should be a number is none."""
    rows = [row for row in _STARTERS if row[0] in environ and row[1] in environ]
    if rows:
        rank, local_rank, size, local_size = _whole(environ, rows)
        world = _number(environ, size, 1)
        local = _number(environ, local_size, 1)
        return Place(_number(environ, rank), _number(environ, local_rank), world, local, True)
    if "RANK" in environ:
        return Place(_number(environ, "RANK"), 0, _number(environ, "WORLD_SIZE", 1), 1, True)
    return Place()


def _whole(
    environ: Mapping[str, str], rows: Sequence[tuple[str, str, str, str]]
) -> tuple[str, str, str, str]:
    """The first row, or one that says the same and the sizes too.

    pyxis gives images with PYTORCH_VERSION torchrun's rank and local rank, and not all sizes.
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
    """(rank of this node, number of nodes), as the Kubernetes operators, Slurm or a user say."""
    for rank, count in _NODES:
        if rank in environ and count in environ:
            return _number(environ, rank), _number(environ, count)
    return 0, 1


def _number(environ: Mapping[str, str], name: str, default: int = 0) -> int:
    """Slurm writes `2(x3)` for two tasks on each of three nodes, the operators `1:4` for a span."""
    if name not in environ:
        return default
    match = re.match(r"\d+(?![\w.-])", environ[name])
    if match is None:
        raise ValueError(f"{name}={environ[name]!r} is not a number")
    return int(match.group())


def _port(environ: Mapping[str, str]) -> str:
    """The same for all ranks of a job, another for another job of the node."""
    job = ".".join(environ.get(name, "") for name in _JOB_IDS)
    return str(20000 + zlib.crc32(job.encode()) % 10000)
