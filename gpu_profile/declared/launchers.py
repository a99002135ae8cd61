"""The launchers, one row each: flags and settings. Importing this module imports no launcher.

A new launcher takes one file in gpu_profile/launchers and one row here, as
tests/unit/test_toy_launcher.py shows.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_profile.declared.key import Key
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.declared.object_kinds import find_kind
from gpu_profile.declared.slurm_settings import SlurmSettings
from gpu_profile.declared.ssh_settings import SshSettings


@dataclass(frozen=True, kw_only=True)
class LauncherFlag:
    """A flag that sets settings of launchers: --host is SSH_HOST.

    Launchers that share a flag, such as --workdir, name it in each of their rows.
    """

    name: str
    doc: str
    settings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LauncherRow:
    """A launcher's name in --on and handles, its class, its flags and its own settings.

    `family` is the word before the help of its flags, by default its name. `mark` begins lines
    of users' own scripts, by which they are told: `#SBATCH`. `runs_services`: it runs those of
    docker compose files. `keys` are read as `settings.launcher_values["TOY_SHELL"]`, or as fields
    of a class that lists them: `settings.of(SlurmSettings).partition`.
    """

    name: str
    path: str
    family: str = ""
    mark: str = ""
    runs_services: bool = False
    flags: tuple[LauncherFlag, ...] = ()
    keys: tuple[Key, ...] = ()

    def load_class(self) -> Any:  # noqa: ANN401 - a class with from_settings(settings) -> Launcher
        """Import and return the launcher's class, such as SshLauncher of `launchers/ssh.py`."""
        module, _, name = self.path.rpartition(".")
        return getattr(importlib.import_module(f"gpu_profile.launchers.{module}"), name)


def _make_flag(name: str, doc: str, *settings: str) -> LauncherFlag:
    return LauncherFlag(name=name, doc=doc, settings=settings)


def _make_workdir(setting: str) -> LauncherFlag:
    return _make_flag("workdir", "where the job runs", setting)


_KUBERNETES = (
    _make_flag("namespace", "namespace", "KUBE_NAMESPACE"),
    _make_flag("context", "context", "KUBE_CONTEXT"),
    _make_flag("instance", "EC2 instance type", "KUBE_INSTANCE"),
    _make_flag(
        "report-to",
        "where reports go: pvc:NAME:/path, hostpath:/tmp, s3://bucket/prefix",
        "KUBE_REPORT_TO",
    ),
    _make_flag("queue", "Kueue's local queue", "KUBE_QUEUE"),
)


def _make_kubernetes_row(name: str, path: str) -> LauncherRow:
    return LauncherRow(
        name=name,
        path=f"kubernetes.{path}",
        family="Kubernetes",
        flags=_KUBERNETES,
        keys=KubernetesSettings.make_keys(),
    )


ROWS: tuple[LauncherRow, ...] = (
    LauncherRow(name="docker", path="docker.launcher.DockerLauncher", runs_services=True),
    LauncherRow(name="host", path="host.HostLauncher", flags=(_make_workdir("SSH_WORKDIR"),)),
    LauncherRow(
        name="ssh",
        path="ssh.SshLauncher",
        flags=(
            _make_flag("host", "user@address", "SSH_HOST"),
            _make_workdir("SSH_WORKDIR"),
            _make_flag("sync", "directory to copy there first", "SSH_SYNC"),
        ),
        keys=SshSettings.make_keys(),
    ),
    LauncherRow(
        name="slurm",
        path="slurm.launcher.SlurmLauncher",
        mark="#SBATCH",
        flags=(
            _make_workdir("SLURM_WORKDIR"),
            _make_flag("login", "user@address of a log-in node", "SLURM_LOGIN"),
            _make_flag("partition", "partition", "SLURM_PARTITION"),
            _make_flag("time", "time limit", "SLURM_TIME"),
            _make_flag("modules", "modules to load", "SLURM_MODULES"),
            _make_flag("sbatch-args", "more options for sbatch", "SLURM_ARGS"),
        ),
        keys=SlurmSettings.make_keys(),
    ),
    _make_kubernetes_row("mpijob", "mpijob.MpiJobLauncher"),
    _make_kubernetes_row("pytorchjob", "pytorchjob.PyTorchJobLauncher"),
    _make_kubernetes_row("trainjob", "trainjob.TrainJobLauncher"),
)

OBJECT_ROW = LauncherRow(name="object", path="user_object.UserObject")
"""The launcher of objects of the user's own manifest. No --on names it; handles have the kind."""

LAUNCHERS: Mapping[str, LauncherRow] = {row.name: row for row in ROWS}
LAUNCHER_KEYS = tuple(dict.fromkeys(key for row in ROWS for key in row.keys))
"""The settings of all launchers. Rows of one family, such as Kubernetes, share theirs."""


def is_launcher(name: str) -> bool:
    """Return whether a handle may begin with this word: a launcher's name or a kind of object."""
    return name in LAUNCHERS or find_kind(name) is not None


def find_flags() -> dict[str, tuple[LauncherRow, ...]]:
    """Return each flag's name with the rows that have it: `{"host": (ssh's row,), …}`."""
    names = dict.fromkeys(flag.name for row in ROWS for flag in row.flags)
    return {
        name: tuple(row for row in ROWS if any(flag.name == name for flag in row.flags))
        for name in names
    }
