"""The environment variables that starters of ranks set for each process.

torchrun, Open MPI, MPICH and Intel MPI, PMIx, Slurm. Container-Root/agent/rank_env.py has those of
the machine where the ranks run.
"""

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
PLACE_VARIABLES = (
    *("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    *("MPI_RANK", "SLURM_LOCALID", "SLURM_NODEID"),
)
"""The process's number on its node, and the node's."""
