"""The settings of Kubernetes jobs: KUBE_NAMESPACE, KUBE_REPORT_TO, …"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from gpu_profile.declared.key_fields import LauncherSettings, make_field


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings(LauncherSettings):
    """KUBE_…: the cluster, and what each pod of a job gets."""

    prefix: ClassVar[str] = "KUBE"
    context: str = make_field("", "Context of kubectl; empty is its current one", "names")
    namespace: str = make_field("", "Namespace of jobs; empty is the context's", "label")
    instance: str = make_field(
        "",
        "EC2 instance type, as in p5.48xlarge: GPUs, EFA, hugepages and memory follow",
        "instance",
    )
    queue: str = make_field("", "Kueue's local queue", "label")
    report_to: str = make_field(
        "",
        "Where reports go: pvc:NAME:/path, hostpath:/tmp, s3://bucket/prefix; empty: the pods"
        " keep them for the fetch",
        "report-place",
    )
    node_selector: str = make_field("", "key=value,… of the nodes to use", "selector")
    tolerations: str = make_field(
        "", "key[=value][:effect],… to tolerate beside the GPU's and EFA's", "tolerations"
    )
    affinity: str = make_field("", "Affinity of the pods, as JSON", "json")
    priority_class: str = make_field("", "PriorityClass of the pods", "label")
    service_account: str = make_field("", "ServiceAccount of the pods", "label")
    run_as_user: str = make_field(
        "auto",
        "User id of the pods; 0 is the image's own user, auto is 1000 in the image of IMAGE",
        "user",
    )
    cpus: str = make_field("0", "CPU limit of each pod that runs ranks; 0 sets none", "count")
    memory_gib: str = make_field(
        "0", "Memory limit of such a pod in GiB; 0 is KUBE_INSTANCE's, or none", "count"
    )
    shm_gib: str = make_field(
        "0", "Limit of /dev/shm in GiB; 0 is a quarter of the memory limit, 64 without one", "count"
    )
    disk_gib: str = make_field(
        "100", "Limit of the reports in a pod in GiB; above it Kubernetes ends the pod", "count"
    )
    injector: Literal["none", "devtools", "operator"] = make_field(
        "none", "NVIDIA's injector that profiles PyTorchJob and TrainJob pods, not the image's nsys"
    )
    injector_name: str = make_field(
        "rank%q{RANK}.%h",
        "Names of its reports, as in rank%q{RANK}.{PROCESS_NAME}_%{POD_FULLNAME}_{TIMESTAMP}_{UID}",
        "injected-name",
    )
    wait: str = make_field("600", "Seconds a job may take to get its pods running", "seconds")
    hold: str = make_field(
        "3600", "Seconds that ended PyTorchJob and TrainJob pods keep their reports", "seconds"
    )
