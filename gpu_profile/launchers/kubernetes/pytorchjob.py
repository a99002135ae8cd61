"""Launcher `pytorchjob`: jobs of Kubeflow's training operator, one pod a node, one rank a GPU."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_profile.job import Job, LauncherName, NsysPlan
from gpu_profile.kubernetes.kubectl import Object, checked_name, quote_literal
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.job import KubernetesJob
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.node import node_env, node_words
from gpu_profile.launchers.kubernetes.state import Kind

_JOB = "training.kubeflow.org/job-name"


@dataclass(frozen=True, kw_only=True)
class PyTorchJobLauncher(KubernetesJob):
    """Runs a job as a PyTorchJob. The pods wait after the run until their reports are fetched."""

    name: ClassVar[LauncherName] = "pytorchjob"
    kind: ClassVar[Kind] = Kind(
        resource="pytorchjobs.v1.kubeflow.org",
        operator="training",
        selector=f"{_JOB}={{name}}",
        workers=f"{_JOB}={{name}}",
        speakers=f"{_JOB}={{name}}",
        container="pytorch",
        leader="-master-",
        suspend={"runPolicy": {"suspend": True}},
        holds=True,
    )

    def manifest(self, job: Job, plan: NsysPlan) -> Manifest:
        nodes = job.resources.nodes
        checked_name(job.name, f"-worker-{nodes}")
        result = manifests.load_manifest("pytorchjob.yaml")
        manifests.describe_job(result, job, self.options, {})
        result["spec"]["nprocPerNode"] = str(job.resources.tasks_per_node or 1)
        replicas = result["spec"]["pytorchReplicaSpecs"]
        for replica in replicas.values():
            manifests.add_injection_label(replica["template"], self.options)
            self._edit(replica["template"]["spec"], job, plan)
        replicas["Worker"]["replicas"] = nodes - 1
        if nodes == 1:
            del replicas["Worker"]
        return result

    def _edit(self, spec: Manifest, job: Job, plan: NsysPlan) -> None:
        container = spec["containers"][0]
        options = self.options.with_user(plan)
        manifests.place_pod(spec, options)
        manifests.spread_pods(spec, _JOB, job.name)
        manifests.edit_container(container, options, job, privileged=plan.privileged)
        manifests.edit_worker(container, self.options, job)
        manifests.edit_volumes(spec, self.options)
        manifests.set_env(container, node_env(job, self.options))
        container["args"] = [job.name, *quote_literal(node_words(job, plan, self.options))]

    def expected(self, job: Object) -> tuple[str, ...]:
        name, replicas = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
        return tuple(
            f"{name}-{role.lower()}-{n}"
            for role, replica in sorted(replicas.items())
            for n in range(int(replica.get("replicas", 1)))
        )
