"""UserObject: an object of the user's own manifest, of any kind with a pod template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Command, Steps
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.declared.object_kinds import ObjectKind
from gpu_profile.errors import Interrupted, NameTakenError, SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.carrier_pod import add_carrier
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    Object,
    check_kubectl_result,
    parse_object,
    split_id,
)
from gpu_profile.kubernetes.marks import MANAGED_BY, MANAGER, OBJECT_LABEL, RUN_LABEL, is_ours
from gpu_profile.launcher import Carrying
from gpu_profile.launchers.kubernetes import nsys_probe, state
from gpu_profile.launchers.kubernetes.job.object import KubernetesObject
from gpu_profile.launchers.kubernetes.job.stop_job import end_pods
from gpu_profile.launchers.kubernetes.node import STOP
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.state import Kind
from gpu_profile.launchers.number_reports import number_reports
from gpu_profile.manifest.edit import Edit, restore_object
from gpu_profile.manifest.user_manifest import EditedManifest, UserManifest
from gpu_profile.nsys.recorder import AGENT, is_armed
from gpu_profile.settings.settings import Settings

_NEVER = "no condition"
_PLACEMENT = (
    *("imagePullSecrets", "serviceAccountName", "nodeSelector", "tolerations", "affinity"),
    *("securityContext", "runtimeClassName", "priorityClassName", "schedulerName"),
)
"""What of a pod's spec says where it may run, and as whom."""
_SCRIPT = f"{CARRIED_TO}/agent/run_container.py"
"""An older image of ours has no such script: then ours of today is carried to it."""


def _make_question(job: Job) -> list[str]:
    """Return the command of the pod that asks nsys for its options."""
    carrier = job.carrier
    if job.is_by_torch:
        return ["sh", "-c", nsys_probe.ASK_TORCH]
    if carrier is None:
        script = AGENT if is_armed(job) else _SCRIPT
        return ["sh", "-c", f"[ -e {script} ] || exit 127; exec nsys profile --help"]
    return [carrier.python, "-E", carrier.checker, "help", carrier.directory]


@dataclass(frozen=True, kw_only=True)
class UserObject(KubernetesObject):
    """Runs an object of a manifest with its ranks under nsys. Its pods wait for the fetch.

    `manifest` is None where a handle names an object that was submitted before. `launcher` is the
    one of that kind in --on, if there is one: it knows how its objects end and are stopped.
    """

    row: ObjectKind
    manifest: UserManifest | None = None
    launcher: KubernetesObject | None = None
    replaces: bool = False
    """Whether the manifest is of an object that runs, which the edited one replaces."""

    @classmethod
    def from_kind(
        cls, settings: Settings, row: ObjectKind, manifest: UserManifest | None = None
    ) -> "UserObject":
        kube = settings.of(KubernetesSettings)
        namespace = (manifest.target.namespace if manifest else "") or kube.namespace
        launcher = LAUNCHERS.get(row.handle)
        return cls(
            cluster=KubernetesCluster(context=kube.context, namespace=namespace),
            options=PodOptions.from_settings(settings),
            row=row,
            manifest=manifest,
            launcher=launcher.load_class().from_settings(settings) if launcher else None,
        )

    @classmethod
    def from_settings(cls, settings: Settings) -> "UserObject":
        """Raise SettingsError: the settings name no object."""
        raise SettingsError("settings name no object", "Use --manifest FILE")

    def get_manifest(self) -> UserManifest:
        """Return the manifest. Raises SettingsError for a handle alone."""
        if self.manifest is None:
            raise SettingsError(f"no manifest of this {self.row.kind} is known", "Use --manifest")
        return self.manifest

    @property
    def name(self) -> str:
        return self.row.handle

    @property
    def kind(self) -> Kind:
        # The launcher's resource names the API version of its own objects: the user's may differ.
        if self.launcher:
            return replace(self.launcher.kind, resource=self.row.resource)
        return Kind(
            resource=self.row.resource,
            operator="",
            label=OBJECT_LABEL,
            leader="",
            suspend=self.row.suspend or {},
            success_condition=self.row.success_condition or _NEVER,
            failure_condition=self.row.failure_condition or _NEVER,
            holds=True,
            is_outlived=self.row.is_outlived,
        )

    def gpus(self) -> Steps[int | None]:
        """Return the GPUs that a container of the manifest asks for."""
        yield from ()
        return self.get_manifest().target.gpus

    def expected(self, job: Object) -> tuple[str, ...]:
        """Return the names that the launcher of this kind knows; most pods get random ones."""
        return self.launcher.expected(job) if self.launcher else ()

    def check(self, job: Object, job_pods: Sequence[Object]) -> Steps[None]:
        if self.launcher:
            yield from self.launcher.check(job, job_pods)

    def stop_script(self) -> str:
        return self.launcher.stop_script() if self.launcher else STOP

    def edit_manifest(self, job: Job, plan: NsysPlan) -> EditedManifest:
        """Return the manifest with the job's ranks under nsys."""
        options = self.options
        edit = Edit(
            job=job,
            plan=plan,
            hold_s=options.hold_s,
            wait_s=options.wait_s,
            disk_gib=options.disk_gib,
            place=options.place,
            keeps_original=self.replaces,
        )
        return self.get_manifest().edit(edit)

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job with our image as its carrier, if that is wanted and its kind can."""
        if self.launcher and self.launcher.carrying is Carrying.NEVER:
            return (yield from self.launcher.carry(job, wanted=wanted))
        return (yield from super().carry(job, wanted=wanted))

    def identity(self, job: Job) -> Steps[str]:
        """Return a key of the cluster, the image's digest and the manifest's placement; else ""."""
        return nsys_probe.identify_answer(self.cluster, self._make_probe_pod(job))

    def probe(self, job: Job) -> Steps[str]:
        """Return nsys' help text from a pod with the image and the placement of the manifest's.

        What that pod needs is applied before, if the object is a new one.
        """
        if not self.replaces and (needs := self.get_manifest().dump_needs()):
            yield from self._apply(needs, job.name)
        pod = self._make_probe_pod(job)
        return (yield from nsys_probe.ask_pod(self.cluster, pod, self.options.wait_s))

    def _make_probe_pod(self, job: Job) -> dict[str, Any]:
        container: dict[str, Any] = {
            "name": nsys_probe.name_asked(job),
            "image": str(job.image),
            "imagePullPolicy": "IfNotPresent",
            "command": _make_question(job),
        }
        placement = self.get_manifest().get_pod_spec()
        if security := self._find_security(placement):
            container["securityContext"] = security
        spec = {key: value for key, value in placement.items() if key in _PLACEMENT}
        spec |= {"restartPolicy": "Never", "containers": [container]}
        if job.carrier:
            add_carrier(spec, container, job.carrier)
        nsys_probe.add_host_path(spec, self.options.place)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": nsys_probe.draw_probe_name(job), "labels": {MANAGED_BY: MANAGER}},
            "spec": spec,
        }

    def _find_security(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what PodSecurity wants of the pod that asks, as the manifest has it."""
        name = self.get_manifest().target.containers[0].name
        containers = [each for each in spec.get("containers", ()) if each.get("name") == name]
        security = (containers[0].get("securityContext") or {}) if containers else {}
        left_out = ("readOnlyRootFilesystem", "privileged")  # it may write to /tmp, and has no GPU
        return {key: value for key, value in security.items() if key not in left_out}

    def _apply(self, text: str, name: str) -> Steps[None]:
        """Apply what stands beside the object of this name."""
        applied = yield self.cluster.kubectl("apply", "--filename=-", stdin=text)
        check_kubectl_result(applied, f"applying what stands beside {name}")

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        """Create the object, after what else is in the manifest. Raises SettingsError if it exists.

        The exit of `kubectl create` decides: an object that exists stays as it is.
        """
        edited = self.edit_manifest(job, plan)
        name = self.get_manifest().target.name or job.name
        if edited.others:
            yield from self._apply(edited.others, name)
        try:
            created = yield self._put(edited.target)
        except KeyboardInterrupt:
            shown = f"`kubectl get {self.kind.resource} {name}` says whether it was made"
            raise Interrupted(f"interrupted while {name} was submitted", shown) from None
        try:
            check_kubectl_result(created, f"starting {name}")
        except NameTakenError as error:
            raise SettingsError(error.what, "Delete it, or give metadata.name another") from error
        created_name = created.stdout.strip().partition(" ")[0]
        return created_name or f"{self.cluster.namespace}/{name}".lstrip("/")

    def _put(self, text: str) -> Command:
        """Return the command that makes the object of a text, or changes the one that runs."""
        if not self.replaces:
            return self.cluster.create_text(text)
        return self.cluster.replace(self.row.resource, yaml.safe_load(text))

    def replace_existing(self, item: Object) -> "UserObject":
        """Return the launcher that replaces an object of the cluster by itself, edited.

        Raises SettingsError for one whose pods cannot be changed, or that a run has changed.
        """
        title = f"{self.get_manifest().target.title} exists on the cluster already"
        if is_ours(item):
            facts = item["metadata"]
            run = facts["labels"].get(RUN_LABEL, "another run")
            again = f"`invoke fetch --job {self.name}://{facts['namespace']}/{facts['name']}`"
            raise SettingsError(f"{title}, for {run}", f"{again} brings its reports first")
        if not self.row.updates:
            hint = "Delete it, or give metadata.name another"
            raise SettingsError(f"{title}, and pods of its kind cannot be changed", hint)
        manifest = self.get_manifest().of_cluster(item)
        return replace(self, manifest=manifest, replaces=True)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        if self.row.is_outlived:
            yield from end_pods(self.cluster, self.kind, job_id, self.stop_script())
        yield from super().fetch(job_id, to)
        yield from number_reports(to)

    def cleanup(self, job_id: str) -> Steps[None]:
        """Put back the pod templates of an object that ran before; delete one that we created."""
        item = yield from state.get_own_job(self.cluster, self.kind, job_id)
        original = state.get_annotation(item, "original")
        if not original:
            yield from super().cleanup(job_id)
            return
        namespace, _ = split_id(job_id)
        restored = restore_object(item, original)
        put_back = yield self.cluster.replace(self.row.resource, restored, namespace=namespace)
        check_kubectl_result(put_back, f"{job_id} is left as it was recorded")

    def find_existing(self) -> Steps[Object | None]:
        """Return the object of the manifest's name if the cluster has one."""
        name = self.get_manifest().target.name
        if not name:  # of generateName: it gets a name of its own
            return None
        result = yield self.cluster.get(self.row.resource, name)
        if "(NotFound)" in result.stderr:
            return None
        return parse_object(result, f"asking for {self.row.handle}/{name}")
