"""The settings of Slurm jobs: SLURM_PARTITION, SLURM_TIME, …"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from gpu_profile.declared.key_fields import LauncherSettings, make_field, make_words_field


@dataclass(frozen=True, kw_only=True)
class SlurmSettings(LauncherSettings):
    """SLURM_…: what sbatch is asked for, and where the job runs."""

    prefix: ClassVar[str] = "SLURM"
    partition: str = make_field("", "Slurm partition", "names")
    account: str = make_field("", "Slurm account", "names")
    time: str = make_field("00:30:00", "Slurm time limit", "slurm-time")
    modules: str = make_field("", "Modules to load in the job, separated by spaces", "names")
    image: str = make_field(
        "", "Container image of Slurm jobs: an address, or a .sqsh or .sif file", "address"
    )
    container: Literal["pyxis", "apptainer"] = make_field(
        "pyxis", "What runs SLURM_IMAGE in the cluster"
    )
    torchrun: bool = make_field(False, "One task a node with torchrun, not one task a GPU")
    args: str = make_words_field("More options for sbatch")
    login: str = make_field(
        "", "user@address of a log-in node; empty runs Slurm's commands here", "login"
    )
    workdir: str = make_field(
        "", "Directory that jobs run in; empty is where sbatch is run", "directory"
    )
    dir: str = make_field(
        "", "Directory that the nodes share; empty is REPORT_DIR", "absolute-path"
    )
