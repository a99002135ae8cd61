"""The rows of launchers: each leads to a class that satisfies Launcher, of its name."""

from collections.abc import Callable, Mapping

import pytest

from gpu_profile.cli.jobs import launcher_of
from gpu_profile.declared.launchers import LAUNCHERS, ROWS
from gpu_profile.launcher import Launcher
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.launchers.ssh import SshLauncher
from gpu_profile.settings.settings import KEYS, Settings
from tests.unit.settings_for import settings_for

TYPED: Mapping[str, Callable[[Settings], Launcher]] = {
    "docker": DockerLauncher.from_settings,
    "host": HostLauncher.from_settings,
    "ssh": SshLauncher.from_settings,
    "slurm": SlurmLauncher.from_settings,
    "mpijob": MpiJobLauncher.from_settings,
    "pytorchjob": PyTorchJobLauncher.from_settings,
    "trainjob": TrainJobLauncher.from_settings,
}
"""mypy holds each class against the protocol here: the rows name them by text."""


@pytest.mark.parametrize("name", TYPED)
def test_a_row_leads_to_the_launcher_of_its_name(name: str) -> None:
    launcher = launcher_of(name, settings_for())
    assert launcher == TYPED[name](settings_for())
    assert launcher.name == name


def test_flags_of_launchers_set_settings_that_are_there() -> None:
    keys = {key.name for key in KEYS}
    settings = {key for row in ROWS for flag in row.flags for key in flag.settings}
    assert settings <= keys
    assert len(LAUNCHERS) == len(ROWS)
