"""The options of a job's pods, parsed from settings and from the job's resources."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.errors import SettingsError
from gpu_profile.job import REPORTS_INSIDE, Job, NsysPlan
from gpu_profile.kubernetes.ec2_instances import Instance, find_instance
from gpu_profile.kubernetes.injector_charts import INJECTED, Generation, find_generation
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.settings.parse import parse_count
from gpu_profile.settings.settings import Settings

_HOLD_S = 3600  # the default of KUBE_HOLD
_DISK_GIB = 100  # the default of KUBE_DISK_GIB
_SHM_GIB = 64
"""GiB of /dev/shm without a memory limit. Unlimited, it could fill half of the node's memory."""
AUTO = "auto"
_MPIUSER = 1000  # Container-Root/setup.d/30-mpi.sh makes the account
# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>\w+))?")


@dataclass(frozen=True, kw_only=True)
class PodOptions:
    """Settings of every pod of a job.

    `run_as_user` is 0 for the image's own user. `own_user`: that number is our default, not
    the setting's.
    """

    image: ImageRef
    carrier_image: str = ""
    instance: Instance | None = None
    place: ReportPlace = field(default_factory=ReportPlace)
    queue: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    priority_class: str = ""
    service_account: str = ""
    run_as_user: int = 0
    own_user: bool = False
    injector: Generation | None = None
    wait_s: int = 600
    hold_s: int = _HOLD_S
    cpus: int = 0
    memory_gib: int = 0
    shm_gib: int = 0
    disk_gib: int = _DISK_GIB

    @classmethod
    def from_settings(cls, settings: Settings) -> "PodOptions":
        kube = settings.of(KubernetesSettings)
        place = ReportPlace.parse(kube.report_to)
        return cls(
            image=settings.image_ref,
            carrier_image=str(settings.carrier_ref),
            instance=find_instance(kube.instance) if kube.instance else None,
            place=place,
            queue=kube.queue,
            node_selector=parse_selector(kube.node_selector),
            tolerations=parse_tolerations(kube.tolerations),
            affinity=parse_affinity(kube.affinity),
            priority_class=kube.priority_class,
            service_account=kube.service_account,
            run_as_user=_choose_user(
                kube, place, has_mpi=bool(settings.component.get("INSTALL_MPI"))
            ),
            own_user=kube.run_as_user == AUTO,
            injector=None if kube.injector == "none" else find_generation(kube.injector),
            wait_s=parse_count("KUBE_WAIT", kube.wait),
            hold_s=parse_count("KUBE_HOLD", kube.hold),
            cpus=parse_count("KUBE_CPUS", kube.cpus),
            memory_gib=parse_count("KUBE_MEMORY_GIB", kube.memory_gib),
            shm_gib=parse_count("KUBE_SHM_GIB", kube.shm_gib),
            disk_gib=parse_count("KUBE_DISK_GIB", kube.disk_gib),
        )

    def with_user(self, plan: NsysPlan) -> "PodOptions":
        """Return the options of pods that run nsys with this plan.

        SYS_ADMIN reaches root alone, so a default user gives way to the image's own.
        """
        if plan.needs_privileges and self.own_user:
            return dataclasses.replace(self, run_as_user=0)
        return self

    def directory(self, name: str) -> str:
        """Return the directory of a run's reports inside a pod, such as
        `/wd/train-20261121-031500`."""
        return self.place.choose_directory(self.folder(name), REPORTS_INSIDE)

    def folder(self, name: str) -> str:
        """Return the last part of that directory. An injector writes all runs' reports to one."""
        return INJECTED if self.injector else name

    def resources(self, job: Job) -> dict[str, dict[str, str | int]]:
        """Return a worker's limits and requests.

        Both are the same, as EFA devices and hugepages demand. Half the GPUs of an instance get
        half its EFA devices and memory.
        """
        requests = job.resources
        gpus = requests.gpus_per_node or 0
        amounts: dict[str, str | int] = {"nvidia.com/gpu": gpus} if gpus else {}
        efa, hugepages = requests.efa_per_node, 0
        memory = requests.memory_gb or self.memory_gib
        if self.instance and gpus:
            share = gpus / self.instance.gpus
            efa = efa or int(self.instance.efa * share)
            memory = memory or int(self.instance.memory_gib * share)
        if efa:
            amounts["vpc.amazonaws.com/efa"] = efa
            # MiB, as in AWS's EFA job samples
            hugepages = self.instance.hugepages_mib if self.instance else 5120
        if hugepages:
            amounts["hugepages-2Mi"] = f"{hugepages}Mi"
        if memory:
            amounts["memory"] = f"{memory}Gi"
        if requests.cpus_per_task:
            amounts["cpu"] = requests.cpus_per_task * (requests.tasks_per_node or 1)
        elif self.cpus:
            amounts["cpu"] = self.cpus
        if hugepages and not memory and "cpu" not in amounts:
            amounts["memory"] = "32000Mi"  # Kubernetes refuses hugepages without memory or CPU
        return {"limits": amounts, "requests": dict(amounts)} if amounts else {}

    def choose_shm_gib(self) -> int:
        """Return the limit of /dev/shm in GiB."""
        if self.shm_gib:
            return self.shm_gib
        if self.memory_gib:
            return max(1, self.memory_gib // 4)
        return self.instance.shm_gib if self.instance else _SHM_GIB


def _choose_user(kube: KubernetesSettings, place: ReportPlace, *, has_mpi: bool) -> int:
    """Return the user of the pods, or 0 for the image's own.

    `auto` is the account mpiuser, which Open MPI's part of our image has. A claim may belong to
    root on the file server, where fsGroup changes nothing (NFS, FSx), so it keeps the image's.
    Raises SettingsError for a user who cannot write to a directory of the node.
    """
    if kube.run_as_user == AUTO:
        return _MPIUSER if has_mpi and not place.claim and not place.takes_root else 0
    user = parse_count("KUBE_RUN_AS_USER", kube.run_as_user)
    if user and place.takes_root:
        what = f"hostpath:{place.host_path} is root's alone, and KUBE_RUN_AS_USER is {user}"
        raise SettingsError(what, "Set KUBE_RUN_AS_USER=0, or use --report-to pvc: or s3:")
    return user


def parse_selector(text: str) -> dict[str, str]:
    """Return the labels of `key=value,…`. Raises SettingsError for another form."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise SettingsError(f"KUBE_NODE_SELECTOR {text!r} is not a selector", "Use key=value,…")
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_tolerations(text: str) -> tuple[dict[str, str], ...]:
    """Return the tolerations of `key[=value][:effect],…` in the form of the API."""
    return tuple(_parse_toleration(part.strip()) for part in text.split(",") if part.strip())


def _parse_toleration(text: str) -> dict[str, str]:
    match = _TOLERATION.fullmatch(text)
    if match is None or (match["effect"] or "NoSchedule") not in _EFFECTS:
        raise SettingsError(
            f"KUBE_TOLERATIONS {text!r} is not a toleration",
            f"Use key[=value][:effect] with an effect of {', '.join(_EFFECTS)}",
        )
    toleration = {"key": match["key"], "operator": "Exists"}
    if match["value"] is not None:
        toleration |= {"operator": "Equal", "value": match["value"]}
    return toleration | ({"effect": match["effect"]} if match["effect"] else {})


def parse_affinity(text: str) -> dict[str, Any]:
    """Return the affinity in KUBE_AFFINITY, a JSON object as in a pod's spec."""
    if not text:
        return {}
    try:
        affinity = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"KUBE_AFFINITY is not JSON: {error}") from error
    if not isinstance(affinity, dict):
        raise SettingsError("KUBE_AFFINITY is not a JSON object", 'Use {"nodeAffinity": {…}}')
    return affinity
