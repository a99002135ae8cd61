"""KubernetesObject follows, stops and fetches the pods of an object. A subclass names its kind."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from gpu_profile.carrier import Carrier
from gpu_profile.command import Command, Steps
from gpu_profile.declared.check import Check
from gpu_profile.errors import JobError, SettingsError
from gpu_profile.job import TOOLS, Job, NsysPlan, Tool
from gpu_profile.job_status import JobStatus
from gpu_profile.kubernetes import pod_exec, pods
from gpu_profile.kubernetes.kubectl import KubernetesCluster, Object, check_kubectl_result, split_id
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.launcher import Carrying, ImageFrom, LauncherDefaults
from gpu_profile.launchers.agent import windows
from gpu_profile.launchers.kubernetes import state
from gpu_profile.launchers.kubernetes.check_cluster import check_cluster, explain_rights
from gpu_profile.launchers.kubernetes.job.job_secret import read_secret
from gpu_profile.launchers.kubernetes.job.job_status import get_job_status
from gpu_profile.launchers.kubernetes.job.stop_job import stop_job
from gpu_profile.launchers.kubernetes.node import STOP
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.reports import claim_reader, copy_reports, to_bucket
from gpu_profile.launchers.kubernetes.state import Kind
from gpu_profile.nsys.recorder import Window, WindowRequest

# How long cleanup waits for the deletion: more than the 120 s that k8s/pytorchjob.yaml gives a pod.
_GONE_S = 180


@dataclass(frozen=True, kw_only=True)
class KubernetesObject(LauncherDefaults, ABC):
    """An object whose pods hold reports. Its id is `namespace/name`."""

    images: ClassVar[ImageFrom] = ImageFrom.REGISTRY
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset({ImageFrom.REGISTRY})
    exports_in_job: ClassVar[bool] = True
    one_node: ClassVar[bool] = False
    carrying: ClassVar[Carrying] = Carrying.INIT_CONTAINER
    tools: ClassVar[frozenset[Tool]] = frozenset(TOOLS)
    cluster: KubernetesCluster
    options: PodOptions

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The names of this kind of object, and how its conditions and pods are read."""

    def doctor(self) -> Steps[tuple[Check, ...]]:
        checks = yield from check_cluster(self.cluster, self.kind)
        return (*checks, *explain_rights(self.kind, self.options))

    @abstractmethod
    def expected(self, job: Object) -> tuple[str, ...]:
        """Return the names of the pods that hold reports, if they follow from the job's name."""

    def check(self, job: Object, job_pods: Sequence[Object]) -> Steps[None]:
        """Raise JobError if a successful run lacks something, such as some of its hosts."""
        yield from ()

    def stop_script(self) -> str:
        """Return shell text that ends the ranks of a pod so that nsys completes its reports.

        $1 is the directory of the reports in the pod.
        """
        return STOP

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job with our image as its carrier, if that is wanted."""
        yield from ()
        if not wanted or self.options.injector:
            return job
        return replace(job, carrier=Carrier(source=self.options.carrier_image))

    def status(self, job_id: str) -> Steps[JobStatus]:
        return get_job_status(self.cluster, self.kind, job_id)

    def require_own(self, job_id: str) -> Steps[None]:
        yield from state.get_own_job(self.cluster, self.kind, job_id)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        namespace, name = split_id(job_id)
        flags = ["--prefix"] if self.kind.holds else []
        if follow:
            flags.append("--follow")
        return self.cluster.kubectl(
            "logs",
            f"--selector={self.kind.speakers.format(name=name)}",
            # With a selector kubectl prints 10 lines a pod and follows 5 pods by default:
            # https://kubernetes.io/docs/reference/kubectl/generated/kubectl_logs
            *("--tail=-1", "--max-log-requests=1000"),
            f"--container={self.kind.container}",
            *flags,
            namespace=namespace,
        )

    def get_variables(self, job_id: str) -> Steps[Mapping[str, str]]:
        job = yield from state.get_job(self.cluster, self.kind, job_id)
        return (yield from read_secret(self.cluster, job, job_id))

    def stop(self, job_id: str) -> Steps[None]:
        yield from stop_job(self.cluster, self.kind, job_id, self.stop_script())

    def record(self, job_id: str, request: WindowRequest) -> Steps[Window]:
        """Record a window in all pods at once. Their nodes' clocks have to agree."""
        job = yield from state.get_own_job(self.cluster, self.kind, job_id)
        job_pods = yield from state.get_pods(self.cluster, self.kind.workers, job_id)
        calls = pod_exec.call_in_pods(self.cluster, job_pods, windows.IN_CONTAINER)
        return (
            yield from windows.record_everywhere(
                calls, state.get_annotation(job, "reports"), request
            )
        )

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        job = yield from state.get_own_job(self.cluster, self.kind, job_id)
        job_pods = yield from state.get_pods(self.cluster, self.kind.workers, job_id)
        began, stopped = state.has_run(job), state.get_annotation(job, "stopped")
        host_path = state.get_annotation(job, "host-path")
        missing_pods: Sequence[str] = ()
        if began and not stopped:
            missing_pods = _list_missing_pods(self.expected(job), job_pods, host_path)
        if stopped and self.kind.suspension_condition in state.list_conditions(job):
            job_pods = ()  # suspended before any rank was started
        elif not began or self.kind.holds:  # a pending pod has recorded nothing
            job_pods = tuple(pod for pod in job_pods if pods.get_phase(pod) != "Pending")
        if state.get_annotation(job, "claim"):
            lasting = not self.kind.holds or bool(state.get_annotation(job, "manifest"))
            where = (self.cluster, self.options, job_id, job, job_pods, to)
            yield from claim_reader.collect_from_claim(*where, lasting=lasting)
        else:
            directory = state.get_annotation(job, "reports")
            yield from copy_reports.collect_from_pods(
                self.cluster,
                job_pods,
                directory,
                to,
                missing_pods,
                host_path=host_path,
                bucket=ReportPlace.parse(state.get_annotation(job, "bucket")).bucket,
            )
        yield from self.check(job, job_pods)

    def check_job(self, job: Job, plan: NsysPlan) -> Steps[None]:
        """Raise SettingsError where KUBE_REPORT_TO names a bucket that this machine cannot use."""
        bucket = self.options.place.bucket
        if not bucket:
            return
        checked = yield to_bucket.call_bucket("check", bucket)
        if checked.returncode:
            hint = "Log in to AWS on this machine, or name a bucket of yours"
            raise SettingsError(f"{bucket} cannot be used: {checked.last_line}", hint)

    def name_place(self, run: str) -> str:
        return self.options.place.describe(run)

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        """Return None: `fetch` brings exports too, made in the pods by the job's own nsys."""
        return None

    def cleanup(self, job_id: str) -> Steps[None]:
        """Delete the job, and ask until it is gone.

        `kubectl delete --wait` needs the right to watch, which a role may lack.
        """
        namespace, name = split_id(job_id)
        words = ("--ignore-not-found", "--cascade=foreground", "--wait=false")
        delete = self.cluster.kubectl(
            "delete", self.kind.resource, name, *words, namespace=namespace
        )
        check_kubectl_result((yield delete), f"{job_id} is left there, its reports were fetched")
        for _ in range(_GONE_S):
            remaining = yield self.cluster.get(self.kind.resource, name, namespace=namespace)
            if remaining.returncode:
                return
            yield self.cluster.pause(1)
        raise JobError(
            f"{job_id} was fetched and deleted, and is still there after {_GONE_S} s",
            "`kubectl describe` its pods: a node may not answer",
        )


def _list_missing_pods(
    expected: Sequence[str], job_pods: Sequence[Object], host_path: str
) -> tuple[str, ...]:
    pod_names = {pods.get_name(pod) for pod in job_pods}
    place = f"and its node has its reports in {host_path}" if host_path else "its reports with it"
    return tuple(f"{name} is gone, {place}" for name in expected if name not in pod_names)
