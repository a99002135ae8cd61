"""Launcher `pytorchjob`: jobs of Kubeflow's training operator, one pod a node, one rank a GPU."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.kubectl import Object
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.node import edit_node
from gpu_profile.launchers.kubernetes.state import Kind


@dataclass(frozen=True, kw_only=True)
class PyTorchJobLauncher(KubernetesJob):
    """Runs a job as a PyTorchJob. The pods wait after the run until their reports are fetched."""

    name: ClassVar[str] = "pytorchjob"
    kind: ClassVar[Kind] = Kind(
        resource="pytorchjobs.v1.kubeflow.org",
        operator="training",
        label="training.kubeflow.org/job-name",
        container="pytorch",
        leader="-master-",
        suspend={"runPolicy": {"suspend": True}},
        holds=True,
        rights_note="the operator's init container keeps the defaults: not for `restricted`",
    )

    def longest_ending(self, job: Job) -> str:
        return f"-worker-{job.resources.nodes}"

    def edit(self, spec: Manifest, job: Job, plan: NsysPlan) -> None:
        nodes = job.resources.nodes
        spec["nprocPerNode"] = str(job.resources.tasks_per_node or 1)
        replicas = spec["pytorchReplicaSpecs"]
        for replica in replicas.values():
            pod = replica["template"]
            manifests.add_injection_label(pod, self.options)
            self.edit_worker(pod["spec"], job, plan)
            edit_node(pod["spec"]["containers"][0], job, plan, self.options)
        replicas["Worker"]["replicas"] = nodes - 1
        if nodes == 1:
            del replicas["Worker"]

    def expected(self, job: Object) -> tuple[str, ...]:
        name, replicas = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
        return tuple(
            f"{name}-{role.lower()}-{n}"
            for role, replica in sorted(replicas.items())
            for n in range(int(replica.get("replicas", 1)))
        )
