"""The object of a manifest whose pods are profiled, and its containers, as values."""

from dataclasses import dataclass

from gpu_profile.declared.object_kinds import ObjectKind, PodTemplate
from gpu_profile.manifest.paths import Path
from gpu_profile.manifest.starters import Starter, count_ranks, find_starter


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container that is edited. `where` leads to its pod template in the object.

    `command` and `args` are its own; without a command, `entrypoint` is the image's. `pods` is how
    many pods the template makes. `is_privileged`: nsys may sample CPUs in it. `user` is who its
    securityContext makes it, such as `user 1000`, empty where that may be root.
    """

    name: str
    where: Path
    template: PodTemplate
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    pods: int
    gpus: int
    is_privileged: bool = False
    user: str = ""
    entrypoint: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return (*(self.command or self.entrypoint), *self.args)

    @property
    def role(self) -> str:
        """The name of its replicas, such as `Worker`, where the kind has one template for all."""
        keys = zip(self.template.path.split("."), self.where, strict=False)
        return next((key for word, key in keys if word == "*" and isinstance(key, str)), "")

    @property
    def is_wrapped(self) -> bool:
        """Whether its program is started by our wrapper: not the sshd of an MPIJob's worker."""
        return self.template.ranks or self.template.starter

    @property
    def starter(self) -> Starter:
        return Starter.MPIRUN if self.template.starter else find_starter(self.words)

    def describe(self) -> str:
        """Return one line: `container pytorch of 2 pods (Worker): one report a rank, …`."""
        pods = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        pods = pods if self.template.is_counted else "each pod"
        pods += f" ({self.role})" if self.role else ""
        work = self.starter.says if self.is_wrapped else "keeps the reports of the ranks in it"
        if self.pods > 1 and not self.template.is_numbered and self.starter is Starter.CONTAINER:
            work += "; its pods have no ranks, and are numbered in the order of their names"
        return f"container {self.name} of {pods}: {work}"


@dataclass(frozen=True, kw_only=True)
class Target:
    """The object that is profiled: the document's number, its kind, and its containers."""

    number: int
    kind: ObjectKind
    namespace: str
    name: str
    containers: tuple[Container, ...]

    @property
    def title(self) -> str:
        return f"{self.kind.kind} {self.name or 'of generateName'}"

    @property
    def pods(self) -> int:
        """How many pods run ranks."""
        workers = [c.pods for c in self.containers if not c.template.starter]
        return sum(workers)

    @property
    def ranks(self) -> int:
        """How many ranks there are at least."""
        started = [c for c in self.containers if c.template.starter]
        if started:
            return sum(count_ranks(c.words, c.starter) for c in started)
        return sum(c.pods * count_ranks(c.words, c.starter) for c in self.containers)

    @property
    def gpus(self) -> int:
        return max(container.gpus for container in self.containers)

    @property
    def is_mixed(self) -> bool:
        """Whether some of its pods have GPUs and some have none, as the head of a Ray cluster."""
        with_ranks = [c for c in self.containers if c.template.ranks]
        return len({container.gpus > 0 for container in with_ranks}) > 1
