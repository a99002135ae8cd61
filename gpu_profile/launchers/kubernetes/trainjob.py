"""Launcher `trainjob`: jobs of Kubeflow Trainer v2, which patch a runtime of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu_profile.command import Steps
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.kubectl import Object
from gpu_profile.launcher import Carrying
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.node import edit_node
from gpu_profile.launchers.kubernetes.state import Kind

_JOB = "jobset.sigs.k8s.io/jobset-name"


@dataclass(frozen=True, kw_only=True)
class TrainJobLauncher(KubernetesJob):
    """Runs a job as a TrainJob: one pod a node, which waits until its reports are fetched."""

    name: ClassVar[str] = "trainjob"
    carrying: ClassVar[Carrying] = Carrying.NEVER
    kind: ClassVar[Kind] = Kind(
        resource="trainjobs.v1alpha1.trainer.kubeflow.org",
        operator="trainer",
        label=_JOB,
        container="node",
        leader="-node-0-0",
        suspend={"suspend": True},
        success_condition="Complete",
        holds=True,
    )

    def longest_ending(self, job: Job) -> str:
        return f"-node-0-{job.resources.nodes}-xxxxx"

    def edit(self, spec: Manifest, job: Job, plan: NsysPlan) -> None:
        trainer = spec["trainer"]
        trainer["image"] = str(job.image or self.options.image)
        trainer["numNodes"] = job.resources.nodes
        trainer["numProcPerNode"] = job.resources.tasks_per_node or 1
        trainer["resourcesPerNode"] = self.options.resources(job)
        edit_node(trainer, job, plan, self.options)
        pod = _pod_template(spec)
        manifests.add_injection_label(pod, self.options)
        self._edit_patch(pod["spec"], job)

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job as it is. Raises SettingsError if a carrier is wanted.

        A patch names an init container that the runtime has, and gives it no image or command
        (trainer.kubeflow.org/v1alpha1, ContainerPatch).
        """
        yield from ()
        if wanted:
            lacking = "agent of ours" if job.is_by_torch else "nsys"
            what = f"{job.image} has no {lacking}, and a TrainJob cannot add an init container"
            raise SettingsError(
                f"{what} to its runtime", "Use --on pytorchjob, or an image of ours"
            )
        return job

    def refuse(self, plan: NsysPlan) -> None:
        """Raise SettingsError for settings that a runtime patch cannot express."""
        hint = "Put it into the cluster's runtime, or use --on pytorchjob"
        if plan.needs_privileges:
            raise SettingsError("a TrainJob cannot add CAP_SYS_ADMIN to its runtime", hint)
        if self.options.priority_class:
            raise SettingsError("a TrainJob cannot set KUBE_PRIORITY_CLASS", hint)

    def _edit_patch(self, spec: Manifest, job: Job) -> None:
        manifests.place_pod(spec, self.options, is_patch=True)
        spec["containers"][0]["securityContext"] = manifests.container_security(self.options)
        manifests.edit_mounts(spec["containers"][0], self.options, job)
        manifests.edit_volumes(spec, self.options, job.name)
        preferred = spec["affinity"].get("podAntiAffinity", {})
        for term in preferred.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            term["podAffinityTerm"]["labelSelector"]["matchLabels"] = {_JOB: job.name}

    def expected(self, job: Object) -> tuple[str, ...]:
        """Return no names: the Job controller ends pod names with random letters."""
        return ()


def _pod_template(spec: Mapping[str, Any]) -> Manifest:
    jobs = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]
    template: Manifest = jobs["replicatedJobs"][0]["template"]["spec"]["template"]
    return template
