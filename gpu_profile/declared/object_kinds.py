"""The kinds of Kubernetes objects that `profile --manifest` edits, one row each.

A kind outside this table takes `--template PATH`. A row's paths are those of the operator's own
API reference; `*` stands for each key or item.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PodTemplate:
    """A pod template in an object.

    `path` leads to the template, and `counts` to numbers whose product is how many pods it makes.
    `is_counted`: they are known, as they are not in a kind outside the table. `ranks`: whether its
    program or that program's children are ranks. `starter`: its mpirun starts the ranks in the
    object's other pods. `container`: the name that the operator looks for. `leader`: the path of a
    template that makes one pod of each group, where this one makes the others. `is_numbered`: its
    pods have numbers of their own. `start`: the command of a container that names none, where the
    operator writes it and not the image. `patches`: at `path` is a container alone, and the list at
    `patches` changes the rest of its pod, which the cluster's runtime has.
    """

    path: str
    counts: tuple[str, ...] = ()
    ranks: bool = True
    starter: bool = False
    container: str = ""
    leader: str = ""
    is_counted: bool = True
    is_numbered: bool = True
    start: tuple[str, ...] = ()
    patches: str = ""

    @property
    def place(self) -> str:
        """The path of what names its image: `spec.template.spec.containers`, `spec.trainer`."""
        return self.path if self.patches else f"{self.path}.spec.containers".lstrip(".")


@dataclass(frozen=True, kw_only=True)
class ObjectKind:
    """A kind of object. `group` is its API group, empty for the core.

    `success_condition` and `failure_condition` are the conditions that its status ends with; empty
    where it has none, as a Deployment's program has no end of its own. `suspend` is the spec that
    makes it release its pods. `set_values` are paths and values without which reports would be
    lost; those of `replaced_values` are set only where the object has another one, those of
    `least_values` where it has a smaller one. `updates`: a change of the pod template makes new
    pods, so that an object that runs can be changed. `own_command` is the annotation by which the
    operator leaves a container's command as it is. `is_outlived`: its pods run on when it has
    ended, and the fetch ends what they record.
    """

    kind: str
    group: str
    templates: tuple[PodTemplate, ...]
    success_condition: str = "Succeeded"
    failure_condition: str = "Failed"
    suspend: Mapping[str, object] | None = None
    set_values: tuple[tuple[str, str], ...] = ()
    replaced_values: tuple[tuple[str, str | bool | int], ...] = ()
    least_values: tuple[tuple[str, int], ...] = ()
    updates: bool = False
    own_command: str = ""
    is_outlived: bool = False

    @property
    def handle(self) -> str:
        """The word before `://` in a handle: `pytorchjob`."""
        return self.kind.lower()

    @property
    def resource(self) -> str:
        """The name for kubectl: `statefulsets.apps`, `pods`."""
        return f"{self.handle}s.{self.group}".rstrip(".")


_REPLICAS = "spec.mpiReplicaSpecs"
_A_DAY_S = 86400  # until the operator deletes an MPIJob that has ended, with its workers' reports
_SETS = "spec.replicatedJobs.*"
# docs.ray.io, "Specify container commands for Ray head/worker Pods": KubeRay's `ray start` is in
# this variable, quoted for a shell, and not the bound on open files that goes before it.
_RAY_START = ("/bin/bash", "-lc", 'ulimit -n 65536; eval "$KUBERAY_GEN_RAY_START_CMD"')
_OWN_COMMAND = "ray.io/overwrite-container-cmd"


def _make_ray_templates(cluster: str) -> tuple[PodTemplate, ...]:
    """Return the pod templates of a Ray cluster whose spec is at the path `cluster`."""
    groups = f"{cluster}.workerGroupSpecs.*"
    return (
        PodTemplate(
            path=f"{cluster}.headGroupSpec.template",
            container="ray-head",
            is_numbered=False,
            start=_RAY_START,
        ),
        PodTemplate(
            path=f"{groups}.template",
            counts=(f"{groups}.replicas",),
            container="ray-worker",
            is_numbered=False,
            start=_RAY_START,
        ),
    )


ROWS: tuple[ObjectKind, ...] = (
    ObjectKind(
        kind="Pod",
        group="",
        templates=(PodTemplate(path=""),),
        success_condition="",
        failure_condition="",
    ),
    ObjectKind(
        kind="Job",
        group="batch",
        templates=(PodTemplate(path="spec.template", counts=("spec.completions",)),),
        success_condition="Complete",
        suspend={"suspend": True},
    ),
    ObjectKind(
        kind="Deployment",
        group="apps",
        templates=(
            PodTemplate(path="spec.template", counts=("spec.replicas",), is_numbered=False),
        ),
        success_condition="",
        failure_condition="",
        updates=True,
    ),
    ObjectKind(
        kind="StatefulSet",
        group="apps",
        templates=(PodTemplate(path="spec.template", counts=("spec.replicas",)),),
        success_condition="",
        failure_condition="",
        updates=True,
    ),
    ObjectKind(
        kind="JobSet",
        group="jobset.x-k8s.io",
        templates=(
            PodTemplate(
                path=f"{_SETS}.template.spec.template",
                counts=(f"{_SETS}.replicas", f"{_SETS}.template.spec.completions"),
                is_numbered=False,
            ),
        ),
        success_condition="Completed",
        suspend={"suspend": True},
    ),
    ObjectKind(
        kind="PyTorchJob",
        group="kubeflow.org",
        templates=(
            PodTemplate(
                path="spec.pytorchReplicaSpecs.*.template",
                counts=("spec.pytorchReplicaSpecs.*.replicas",),
                container="pytorch",
            ),
        ),
        suspend={"runPolicy": {"suspend": True}},
        set_values=(("spec.runPolicy.cleanPodPolicy", "None"),),
    ),
    ObjectKind(
        kind="TrainJob",
        group="trainer.kubeflow.org",
        templates=(
            PodTemplate(
                path="spec.trainer",
                counts=("spec.trainer.numNodes",),
                container="node",
                patches="spec.runtimePatches",
            ),
        ),
        success_condition="Complete",
        suspend={"suspend": True},
    ),
    ObjectKind(
        kind="MPIJob",
        group="kubeflow.org",
        templates=(
            PodTemplate(path=f"{_REPLICAS}.Launcher.template", ranks=False, starter=True),
            PodTemplate(
                path=f"{_REPLICAS}.Worker.template",
                counts=(f"{_REPLICAS}.Worker.replicas",),
                ranks=False,
            ),
        ),
        suspend={"runPolicy": {"suspend": True}},
        set_values=(("spec.runPolicy.cleanPodPolicy", "None"),),
        replaced_values=(("spec.cleanPodPolicy", "None"),),
        least_values=(("spec.runPolicy.ttlSecondsAfterFinished", _A_DAY_S),),
    ),
    ObjectKind(
        kind="LeaderWorkerSet",
        group="leaderworkerset.x-k8s.io",
        templates=(
            PodTemplate(path="spec.leaderWorkerTemplate.leaderTemplate", counts=("spec.replicas",)),
            PodTemplate(
                path="spec.leaderWorkerTemplate.workerTemplate",
                counts=("spec.replicas", "spec.leaderWorkerTemplate.size"),
                leader="spec.leaderWorkerTemplate.leaderTemplate",
            ),
        ),
        success_condition="",
        failure_condition="",
        updates=True,
    ),
    ObjectKind(
        kind="RayCluster",
        group="ray.io",
        templates=_make_ray_templates("spec"),
        success_condition="",
        failure_condition="",
        own_command=_OWN_COMMAND,
    ),
    ObjectKind(
        kind="RayService",
        group="ray.io",
        templates=_make_ray_templates("spec.rayClusterConfig"),
        success_condition="",
        failure_condition="",
        own_command=_OWN_COMMAND,
    ),
    ObjectKind(
        kind="RayJob",
        group="ray.io",
        templates=_make_ray_templates("spec.rayClusterSpec"),
        success_condition="Complete",
        suspend={"suspend": True},
        replaced_values=(
            ("spec.shutdownAfterJobFinishes", False),
            ("spec.ttlSecondsAfterFinished", 0),
        ),
        own_command=_OWN_COMMAND,
        is_outlived=True,
    ),
)

KINDS: Mapping[str, ObjectKind] = {row.handle: row for row in ROWS}


def find_kind(handle: str) -> ObjectKind | None:
    """Return the kind of a handle's word; None for a word that is no kind.

    A kind outside the table is written with its version and group: `foo.v1.example.com`.
    """
    if handle in KINDS:
        return KINDS[handle]
    kind, _, version_and_group = handle.partition(".")
    if not version_and_group:
        return None
    return OtherKind(kind=kind, group=version_and_group, templates=())


@dataclass(frozen=True, kw_only=True)
class OtherKind(ObjectKind):
    """A kind outside the table. `group` has its version too: `v1.example.com`."""

    @property
    def handle(self) -> str:
        return f"{self.kind.lower()}.{self.group}"

    @property
    def resource(self) -> str:
        return self.handle
