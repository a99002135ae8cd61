"""What a launcher of the user's own file can do beside running a job."""

from typing import Protocol

from gpu_profile.command import Steps
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.kubectl import Object
from gpu_profile.launcher import Launcher
from gpu_profile.manifest.batch_script import BatchScript
from gpu_profile.manifest.compose import ComposeService
from gpu_profile.manifest.user_manifest import EditedManifest, UserManifest


class ManifestLauncher(Launcher, Protocol):
    """A launcher that runs the object of a file with its ranks under nsys."""

    def get_manifest(self) -> UserManifest:
        """Return the file and the object in it. Raises SettingsError for a handle alone."""

    def edit_manifest(self, job: Job, plan: NsysPlan) -> EditedManifest:
        """Return the file before and after the edit, which `submit` applies."""

    @property
    def replaces(self) -> bool:
        """Whether the edited object replaces one that runs."""

    def replace_existing(self, item: Object) -> "ManifestLauncher":
        """Return the launcher that replaces an object of the cluster by itself, edited."""

    def find_existing(self) -> Steps[Object | None]:
        """Return the object of that name if the cluster has one."""


class ScriptLauncher(Launcher, Protocol):
    """A launcher of a scheduler that runs a user's own script with its ranks under nsys."""

    def with_script(self, script: BatchScript) -> "ScriptLauncher":
        """Return the launcher that runs this script. Raises SettingsError for some."""

    def compare_script(self, job: Job, plan: NsysPlan) -> str:
        """Return the unified difference of what the scheduler reads, which --dry-run prints."""


class ServiceLauncher(Launcher, Protocol):
    """A launcher of an engine that runs a service of a user's compose file."""

    def with_service(self, service: ComposeService) -> "ServiceLauncher":
        """Return the launcher that runs this service."""

    def render_override(self, job: Job, plan: NsysPlan) -> str:
        """Return the file that compose reads after the user's, which --dry-run prints."""
