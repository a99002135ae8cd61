"""Launcher `mpijob`: jobs of Kubeflow's MPI operator. mpirun starts one rank a GPU, under nsys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gpu_profile.command import Steps
from gpu_profile.errors import JobError, SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes import pod_exec, pods
from gpu_profile.kubernetes.kubectl import Object, check_kubectl_result, quote_literal
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.manifests import Manifest
from gpu_profile.launchers.kubernetes.state import Kind, get_annotation, get_pods, list_conditions
from gpu_profile.nsys.rank_wrapper import rank_arguments

_ROLE = "training.kubeflow.org/job-role"
# No rank starts once .stopped exists. profile.py passes SIGTERM on to nsys' program. The pattern
# `[.]` does not match the command line of this sh itself.
_STOP = """(umask 077 && mkdir -p "$1") && : >"$1/.stopped"
for process in /proc/[0-9]*; do
  words=$(tr '\\0' ' ' 2>/dev/null <"$process/cmdline")
  if echo "$words" | grep -q "/profile[_ranks]*[.]py .*--output=$1 "; then
    kill -TERM "${process#/proc/}" || true
  fi
done"""
_MARKS = 'cd "$1" && ls -d .ran.* 2>/dev/null; true'


def _list_gone(job: Object, job_pods: Sequence[Object]) -> tuple[str, ...]:
    """Return the workers that are not there, or that the operator made anew after the launcher.

    The launcher starts after all workers.
    """
    began = min((_get_creation(pod) for pod in job_pods if _is_launcher(pod)), default="")
    creation = {pods.get_name(pod): _get_creation(pod) for pod in job_pods}
    return tuple(
        name
        for name in _list_workers(job)
        if name not in creation or (began and creation[name] > began)
    )


def _list_workers(job: Object) -> tuple[str, ...]:
    name = job["metadata"]["name"]
    workers = int(job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"])
    return tuple(f"{name}-worker-{n}" for n in range(workers))


def _is_launcher(pod: Object) -> bool:
    return "-launcher" in pods.get_name(pod)


@dataclass(frozen=True, kw_only=True)
class MpiJobLauncher(KubernetesJob):
    """Runs a job as an MPIJob. Workers outlive mpirun (cleanPodPolicy None) for the fetch."""

    name: ClassVar[str] = "mpijob"
    kind: ClassVar[Kind] = Kind(
        resource="mpijobs.v2beta1.kubeflow.org",
        operator="mpi",
        label="training.kubeflow.org/job-name",
        worker_role=f",{_ROLE}=worker",
        speaker_role=f",{_ROLE}=launcher",
        leader="-launcher",
        suspend={"runPolicy": {"suspend": True}},
        root_needs=manifests.SSHD_NEEDS,
        list_gone=_list_gone,
    )

    def longest_ending(self, job: Job) -> str:
        return f"-worker-{job.resources.nodes - 1}"

    def refuse(self, plan: NsysPlan) -> None:
        if self.options.injector:
            raise SettingsError(
                "an injector does not see the ranks of an MPIJob: sshd starts them",
                "Set KUBE_INJECTOR=none, or use --on pytorchjob",
            )

    def edit(self, spec: Manifest, job: Job, plan: NsysPlan) -> None:
        ranks = job.resources.tasks_per_node or 1
        spec["slotsPerWorker"] = ranks
        replicas = spec["mpiReplicaSpecs"]
        replicas["Worker"]["replicas"] = job.resources.nodes
        worker = replicas["Worker"]["template"]["spec"]
        self.edit_worker(worker, job, plan, needs=self.kind.root_needs)
        self._edit_launcher(replicas["Launcher"]["template"]["spec"], job, plan, ranks)

    def _edit_launcher(self, spec: Manifest, job: Job, plan: NsysPlan, ranks: int) -> None:
        container = spec["containers"][0]
        output = self.options.directory(job.name)
        options = self.options.with_user(plan)  # ssh logs in at the workers as the same user
        manifests.place_pod(spec, options)
        manifests.edit_container(container, options, job)
        needed = {
            "WAIT_SECONDS": str(self.options.wait_s),
            "RANKS_PER_HOST": str(ranks),
            "REPORTS": output,
            "EXPORT": manifests.list_exported(job.env),
        }
        manifests.refer_to_secret(container, job)
        manifests.set_env(container, needed)
        words = (*job.profile_words, *rank_arguments(job, plan, output=output))
        container["args"] = [job.name, *quote_literal(words)]

    def expected(self, job: Object) -> tuple[str, ...]:
        return _list_workers(job)

    def stop_script(self) -> str:
        return _STOP

    def check(self, job: Object, job_pods: Sequence[Object]) -> Steps[None]:
        """Raise JobError if ranks ran on fewer hosts than there are workers.

        Each rank leaves a file `.ran.RANK.HOST`. mpirun exits with 0 even if it used fewer hosts.
        """
        if self.kind.success_condition not in list_conditions(job) or get_annotation(
            job, "manifest"
        ):
            return
        directory, expected_pods, hosts = get_annotation(job, "reports"), self.expected(job), set()
        for pod in filter(pods.is_running, job_pods):
            marks = pod_exec.ask_pod(self.cluster, pod, _MARKS, directory)
            listed = check_kubectl_result(
                (yield from marks), f"counting the hosts of {job['metadata']['name']}"
            )
            hosts |= {mark.split(".", 3)[3] for mark in listed.stdout.split()}
        if len(hosts) < len(expected_pods):
            used = f"{', '.join(sorted(hosts))} alone" if hosts else "none"
            what = f"of {len(expected_pods)} workers mpirun used {used}: {', '.join(expected_pods)}"
            hint = "See that the image's mpirun reads --hostfile; the job was left for a look"
            remade = yield from self._list_remade(job, job_pods)
            if remade:
                what += f"; {', '.join(remade)} was deleted before mpirun reached it, and made anew"
                hint = "`kubectl get events` may say by whom; run it again"
            raise JobError(what, hint)

    def _list_remade(self, job: Object, job_pods: Sequence[Object]) -> Steps[tuple[str, ...]]:
        """Return the workers that are younger than the launcher, which starts after all workers."""
        facts = job["metadata"]
        job_id = f"{facts.get('namespace', '')}/{facts['name']}".lstrip("/")
        launchers = yield from get_pods(self.cluster, self.kind.speakers, job_id)
        began = min(map(_get_creation, launchers), default="")
        return tuple(pods.get_name(pod) for pod in job_pods if began and _get_creation(pod) > began)


def _get_creation(pod: Object) -> str:
    """Return the creation time, such as `2026-11-21T03:00:00Z`, which sorts as text."""
    return str(pod["metadata"].get("creationTimestamp", ""))
