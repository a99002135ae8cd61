"""What a pod can ask for on an EC2 instance type, one row a type.

GPUs and EFA devices are those of AWS's job samples; memory and CPUs are the type's published ones.
`doctor --on mpijob` shows what your nodes offer, which may be less.
"""

from dataclasses import dataclass

from gpu_profile.errors import SettingsError, did_you_mean

_USABLE = 0.75
"""The share of memory for pods: the kubelet, daemon sets and hugepages need the rest."""
_SHARED = 0.25
"""The share of that memory for /dev/shm, which data loaders and NCCL use."""
_HUGEPAGES_MIB = 5120
"""MiB of hugepages, as in AWS's EFA job samples.

https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
"""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance type. Counts are for the whole instance; `memory` is in GiB."""

    name: str
    gpus: int
    efa: int
    memory: int
    cpus: int

    @property
    def memory_gib(self) -> int:
        """The GiB that one pod may ask for."""
        return int(self.memory * _USABLE)

    @property
    def shm_gib(self) -> int:
        return max(1, int(self.memory_gib * _SHARED))

    @property
    def hugepages_mib(self) -> int:
        return _HUGEPAGES_MIB if self.efa else 0


def _make_instance(name: str, gpus: int, efa: int, memory: int, cpus: int) -> Instance:
    return Instance(name=name, gpus=gpus, efa=efa, memory=memory, cpus=cpus)


INSTANCES: tuple[Instance, ...] = (
    _make_instance("p4d.24xlarge", 8, 4, 1152, 96),
    _make_instance("p4de.24xlarge", 8, 4, 1152, 96),
    _make_instance("p5.4xlarge", 1, 1, 256, 16),
    _make_instance("p5.48xlarge", 8, 32, 2048, 192),
    _make_instance("p5e.48xlarge", 8, 32, 2048, 192),
    _make_instance("p5en.48xlarge", 8, 16, 2048, 192),
    _make_instance("p6-b200.48xlarge", 8, 8, 2048, 192),
    _make_instance("p6-b300.48xlarge", 8, 16, 4096, 192),
    _make_instance("g5.8xlarge", 1, 1, 128, 32),
    _make_instance("g5.12xlarge", 4, 1, 192, 48),
    _make_instance("g5.24xlarge", 4, 1, 384, 96),
    _make_instance("g5.48xlarge", 8, 1, 768, 192),
    _make_instance("g6.8xlarge", 1, 1, 128, 32),
    _make_instance("g6.12xlarge", 4, 1, 192, 48),
    _make_instance("g6.24xlarge", 4, 1, 384, 96),
    _make_instance("g6.48xlarge", 8, 1, 768, 192),
    _make_instance("g6e.8xlarge", 1, 1, 256, 32),
    _make_instance("g6e.12xlarge", 4, 1, 384, 48),
    _make_instance("g6e.24xlarge", 4, 2, 768, 96),
    _make_instance("g6e.48xlarge", 8, 4, 1536, 192),
)
_BY_NAME = {instance.name: instance for instance in INSTANCES}


def find_instance(name: str) -> Instance:
    """Return the row of a type. `ml.p5.48xlarge` (SageMaker HyperPod) is `p5.48xlarge`."""
    row = _BY_NAME.get(name.removeprefix("ml."))
    if row:
        return row
    hint = did_you_mean(name, _BY_NAME) or f"Known: {', '.join(_BY_NAME)}"
    raise SettingsError(f"KUBE_INSTANCE {name!r} is not in the table", hint)
