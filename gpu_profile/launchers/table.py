"""The launchers by name, one row each. Importing this module imports every launcher."""

from collections.abc import Callable, Mapping

from gpu_profile.job import LauncherName
from gpu_profile.launcher import Launcher
from gpu_profile.launchers.docker import DockerLauncher
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.launchers.ssh import SshLauncher
from gpu_profile.settings.settings import Settings

LAUNCHERS: Mapping[LauncherName, Callable[[Settings], Launcher]] = {
    "docker": DockerLauncher.from_settings,
    "host": HostLauncher.from_settings,
    "ssh": SshLauncher.from_settings,
    "slurm": SlurmLauncher.from_settings,
    "mpijob": MpiJobLauncher.from_settings,
    "pytorchjob": PyTorchJobLauncher.from_settings,
    "trainjob": TrainJobLauncher.from_settings,
}
