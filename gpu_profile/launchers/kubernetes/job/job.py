"""KubernetesJob makes an object of ours, such as an MPIJob, and asks the cluster what it needs.

A launcher adds its Kind (names and selectors) and its manifest.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from gpu_profile.command import Steps
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.errors import Interrupted, SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.carrier_pod import add_carrier
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    check_kubectl_result,
    checked_name,
    parse_object,
)
from gpu_profile.launchers.kubernetes import manifests, nsys_probe
from gpu_profile.launchers.kubernetes.job.job_secret import create_secret
from gpu_profile.launchers.kubernetes.job.object import KubernetesObject
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.pod_options import AUTO, PodOptions
from gpu_profile.launchers.kubernetes.state import Kind
from gpu_profile.nsys.help import TYPICAL_HELP
from gpu_profile.settings.settings import Settings

T = TypeVar("T", bound="KubernetesJob")
GPU = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class KubernetesJob(KubernetesObject):
    """A job that is a custom resource of ours, such as an MPIJob of k8s/mpijob.yaml."""

    kind: ClassVar[Kind]
    name: ClassVar[str]

    @classmethod
    def from_settings(cls: type[T], settings: Settings) -> T:
        kube = settings.of(KubernetesSettings)
        return cls(
            cluster=KubernetesCluster(context=kube.context, namespace=kube.namespace),
            options=PodOptions.from_settings(settings),
        )

    @classmethod
    def with_image(cls, settings: Settings, image: str) -> Settings:
        """Return the settings with this image, and with its own user in place of `auto`.

        Only the image that IMAGE names is known to have the account that `auto` runs pods as.
        """
        user = settings.of(KubernetesSettings).run_as_user
        user = "0" if user == AUTO else user
        return settings.with_image(image).with_launcher_value("KUBE_RUN_AS_USER", user)

    def manifest(self, job: Job, plan: NsysPlan) -> Manifest:
        """Return the object that starts the job, for `kubectl create`, from k8s/NAME.yaml."""
        checked_name(job.name, self.longest_ending(job))
        self.refuse(plan)
        manifest = manifests.load_manifest(f"{self.name}.yaml")
        manifests.describe_job(manifest, job, self.options, {})
        self.edit(manifest["spec"], job, plan)
        return manifest

    @abstractmethod
    def longest_ending(self, job: Job) -> str:
        """Return what the operator puts after the job's name in a pod's: `-worker-15`."""

    def refuse(self, plan: NsysPlan) -> None:
        """Raise SettingsError for what this kind of job cannot do, such as an injector's work."""

    @abstractmethod
    def edit(self, spec: Manifest, job: Job, plan: NsysPlan) -> None:
        """Fill the object's `spec` in: numbers of pods and ranks, images, resources, commands."""

    def edit_worker(
        self, spec: Manifest, job: Job, plan: NsysPlan, *, needs: Sequence[str] = ()
    ) -> None:
        """Fill in the spec of a pod that runs ranks; `needs` are capabilities of its root."""
        container = spec["containers"][0]
        options = self.options.with_user(plan)
        manifests.place_pod(spec, options)
        manifests.spread_pods(spec, self.kind.label, job.name)
        manifests.edit_container(
            container, options, job, privileged=plan.needs_privileges, needs=needs
        )
        manifests.edit_worker(container, self.options, job)
        manifests.edit_volumes(spec, self.options, job.name)
        if job.carrier:
            add_carrier(spec, container, job.carrier)

    def gpus(self) -> Steps[int | None]:
        """Return the GPUs of the named instance type, otherwise the largest number on any node."""
        if self.options.instance:
            return self.options.instance.gpus
        words = [
            f"--selector={','.join(f'{k}={v}' for k, v in self.options.node_selector.items())}"
        ]
        answer = yield self.cluster.get("nodes", *words)
        # kubectl says `Forbidden` or `forbidden`.
        if "orbidden" in answer.stderr:
            raise SettingsError(
                "this user may not list nodes, so their GPUs are not known",
                "Say --gpus-per-node N, or --instance TYPE",
            )
        nodes = parse_object(answer, "asking for the nodes' GPUs").get("items", ())
        offered = [node["status"].get("allocatable", {}).get(GPU, 0) for node in nodes]
        return max(map(int, offered), default=0)

    def identity(self, job: Job) -> Steps[str]:
        """Return a key of the cluster, the image's digest and the placement; else ""."""
        if self.options.injector:
            return ""
        manifest = nsys_probe.make_probe_manifest(job.name, job, self.options)
        return (yield from nsys_probe.identify_answer(self.cluster, manifest))

    def probe(self, job: Job) -> Steps[str]:
        """Return nsys' help text; with an injector a typical one, since it brings its own nsys."""
        if self.options.injector:
            if job.is_by_torch:
                what = "KUBE_INJECTOR brings nsys to pods, and --with torch records without it"
                raise SettingsError(what, "Unset it")
            return TYPICAL_HELP
        return (yield from nsys_probe.ask_for_help(self.cluster, job, self.options))

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        manifests.refuse_mounts(job)
        manifest = self.manifest(job, plan)
        try:
            created = yield self.cluster.create(manifest)
        except KeyboardInterrupt:
            shown = f"`kubectl get {self.kind.resource} {job.name}` says whether it was made"
            raise Interrupted(f"interrupted while {job.name} was submitted", shown) from None
        check_kubectl_result(created, f"starting {job.name}")
        created_name, _, uid = created.stdout.strip().partition(" ")
        if job.env:
            owner_uid = uid or "UID"  # --dry-run creates nothing, so nothing has a uid
            yield from create_secret(self.cluster, self.kind.resource, job, manifest, owner_uid)
        return created_name or f"{self.cluster.namespace}/{job.name}".lstrip("/")
