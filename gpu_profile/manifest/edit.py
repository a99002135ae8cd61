"""Edit an object so that its ranks run under nsys: labels, volumes, environment, wrapper, grace."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_profile.carrier import Carrier
from gpu_profile.declared.object_kinds import ObjectKind
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.carrier_pod import make_additions
from gpu_profile.kubernetes.kubectl import quote_literal
from gpu_profile.kubernetes.marks import DEFAULT_CONTAINER, OBJECT_LABEL, PREFIX, RUN_LABEL
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.manifest.container_words import make_container_words
from gpu_profile.manifest.documents import Document
from gpu_profile.manifest.paths import Path, find_values, insert_key, set_value
from gpu_profile.manifest.target import Container, Target

REPORTS_MOUNT = "/gpu-profile"
_VOLUME = "gpu-profile-reports"
_TEMPORARY = "gpu-profile-tmp"
_GRACE_S = 120  # nsys writes its report


@dataclass(frozen=True, kw_only=True)
class Edit:
    """What all pods of a run get. `disk_gib` limits the reports in a pod, `hold_s` their wait."""

    job: Job
    plan: NsysPlan
    hold_s: int = 3600
    wait_s: int = 600
    disk_gib: int = 100
    place: ReportPlace = field(default_factory=ReportPlace)
    keeps_original: bool = False
    """Whether the object gets its pod templates as they were, which `restore_object` puts back."""

    @property
    def reports(self) -> str:
        """The directory of the reports in each pod."""
        return self.place.choose_directory(self.job.name, REPORTS_MOUNT)

    def make_mount(self) -> Document:
        """Return the mount of the volume for reports."""
        path = self.place.choose_mount(self.job.name, REPORTS_MOUNT)
        return {"name": _VOLUME, "mountPath": path}

    def make_volume(self) -> Document:
        return {"name": _VOLUME, **self.place.make_source(self.job.name, self.disk_gib)}

    def wrap(self, container: Container) -> list[str]:
        """Return the words before the container's own."""
        hold_s = 0 if container.template.starter else self.hold_s
        words = make_container_words(
            self.job, self.plan, container.starter, hold_s=hold_s, output=self.reports
        )
        return quote_literal(words)


def edit_object(document: Document, target: Target, edit: Edit) -> None:
    """Edit the document of the target."""
    metadata = _get_mapping(document, "metadata")
    if not target.name:
        del metadata["generateName"]
        insert_key(metadata, "name", edit.job.name)
    name = target.name or edit.job.name
    _put(metadata, "labels", {RUN_LABEL: edit.job.name})
    notes = edit.place.make_notes(edit.job.name)
    facts = {"reports": edit.reports, "manifest": "true", **notes}
    if edit.keeps_original:
        facts["original"] = _describe_templates(document, target)
    else:  # how long pods may take counts from the object's creation
        facts["wait-seconds"] = str(edit.wait_s)
    marks = {f"{PREFIX}/{key}": value for key, value in facts.items()}
    if target.kind.own_command:
        marks[target.kind.own_command] = "true"
    _put(metadata, "annotations", marks)
    _set_declared_values(document, target.kind)
    for container in target.containers:
        template = _follow(document, container.where)
        if container.template.patches:
            _add_patch(document, container, name, edit)
            _wrap_program(template, container, edit)
            continue
        _edit_pod(template, container, name, edit)
        _edit_container(_find_container(template, container.name), container, edit)
        if edit.job.carrier:
            _carry(template["spec"], _find_container(template, container.name), edit.job.carrier)


def _set_declared_values(document: Any, kind: ObjectKind) -> None:  # noqa: ANN401 - YAML
    """Set what the object's kind needs so that reports outlive the job."""
    for path, value in kind.set_values:
        set_value(document, path, value)
    for path, replacement in kind.replaced_values:
        if list(find_values(document, path)):
            set_value(document, path, replacement)
    for path, least in kind.least_values:
        if any(
            isinstance(value, int) and value < least for _, value in find_values(document, path)
        ):
            set_value(document, path, least)


def _carry(spec: Document, container: Document, carrier: Carrier) -> None:
    """Have nsys, a Python and our agent copied to the pod, by an init container before its own."""
    additions = make_additions(carrier, container)
    _add_named(_get_list(spec, "volumes"), dict(additions.volume))
    _add_named(_get_list(spec, "initContainers"), dict(additions.init_container))
    _add_named(_get_list(container, "volumeMounts"), dict(additions.mount))


def _describe_templates(document: Document, target: Target) -> str:
    """Return the pod templates of the target as JSON: a path's keys, and the template there."""
    wheres = [container.where for container in target.containers]
    return json.dumps([[where, _follow(document, where)] for where in wheres])


def restore_object(item: Mapping[str, Any], original: str) -> dict[str, Any]:
    """Return an object of the cluster with the pod templates of `original`, without our marks."""
    restored: dict[str, Any] = json.loads(json.dumps(item))
    for where, template in json.loads(original):
        *keys, last = where
        _follow(restored, tuple(keys))[last] = template
    for marks in (restored["metadata"].get("annotations"), restored["metadata"].get("labels")):
        for key in [key for key in marks or () if key.startswith(f"{PREFIX}/")]:
            del marks[key]
    restored.pop("status", None)
    return restored


def _edit_pod(template: Document, container: Container, name: str, edit: Edit) -> None:
    metadata, spec = _get_mapping(template, "metadata"), template["spec"]
    _put(metadata, "labels", {OBJECT_LABEL: name})
    _put(metadata, "annotations", {DEFAULT_CONTAINER: container.name})
    if (spec.get("terminationGracePeriodSeconds") or 0) < _GRACE_S:
        insert_key(spec, "terminationGracePeriodSeconds", _GRACE_S)
    volumes = _get_list(spec, "volumes")
    _add_named(volumes, edit.make_volume())
    if _needs_temporary(_find_container(template, container.name)):
        limit = {"sizeLimit": f"{edit.disk_gib}Gi"}
        _add_named(volumes, {"name": _TEMPORARY, "emptyDir": limit})


def _edit_container(container: Document, target: Container, edit: Edit) -> None:
    needs_temporary = _needs_temporary(container)
    mounts = _get_list(container, "volumeMounts")
    if needs_temporary:
        _add_named(mounts, {"name": _TEMPORARY, "mountPath": "/tmp"})
    _add_named(mounts, edit.make_mount())
    if target.is_wrapped:
        _wrap_program(container, target, edit)


def _add_patch(document: Document, target: Container, name: str, edit: Edit) -> None:
    """Add the volume, the label and the annotation to the pods of a TrainJob's runtime.

    Trainer 2.2 knows no grace period there (trainer.kubeflow.org/v1alpha1, RuntimePatch).
    """
    container: Document = {
        "name": target.name,
        "volumeMounts": [edit.make_mount()],
    }
    spec: Document = {"containers": [container], "volumes": [edit.make_volume()]}
    marks = {"labels": {OBJECT_LABEL: name}, "annotations": {DEFAULT_CONTAINER: target.name}}
    pod = {"metadata": marks, "spec": spec}
    job = {"name": target.name, "template": {"spec": {"template": pod}}}
    patch = {
        "manager": f"{PREFIX}/profile",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    *keys, last = target.template.patches.split(".")
    _get_list(_follow(document, tuple(keys)), last).insert(0, patch)


def _wrap_program(container: Document, target: Container, edit: Edit) -> None:
    """Start the container's program by our wrapper, which gets the pod's name."""
    pod_name = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    _add_named(_get_list(container, "env"), {"name": "GPU_PROFILE_POD", **pod_name})
    _wrap(container, edit.wrap(target), target.entrypoint)


def _wrap(container: Document, words: list[str], entrypoint: tuple[str, ...]) -> None:
    """Put our words before the command, or before the image's where the object has none."""
    if not container.get("command"):
        container.pop("command", None)
        insert_key(container, "command", [*words, *quote_literal(entrypoint)], at=1)
        return
    command = _copy_value(container, "command")
    if command[: len(words)] == words:  # an alias: the other container has the same list
        return
    for word in reversed(words):
        command.insert(0, word)


def _needs_temporary(container: Document) -> bool:
    """Return whether /tmp, where nsys records, is a part of a root that is read only."""
    security = container.get("securityContext") or {}
    paths = {mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    return bool(security.get("readOnlyRootFilesystem")) and "/tmp" not in paths


def _find_container(template: Document, name: str) -> Document:
    containers: list[Document] = template["spec"]["containers"]
    return next(container for container in containers if container.get("name", "") == name)


def _follow(document: Document, where: Path) -> Document:
    node: Any = document
    for key in where:
        node = node[key]
    mapping: Document = node
    return mapping


def _get_mapping(parent: Document, key: str) -> Document:
    """Return the mapping under a key. A new one is first: what stands after has comments."""
    if not parent.get(key):
        parent.pop(key, None)
        insert_key(parent, key, {})
    mapping: Document = _copy_value(parent, key)
    return mapping


def _get_list(parent: Document, key: str) -> list[Any]:
    if not parent.get(key):
        parent.pop(key, None)
        insert_key(parent, key, [], at=1)
    items: list[Any] = _copy_value(parent, key)
    return items


def _copy_value(parent: Document, key: str) -> Any:  # noqa: ANN401 - YAML
    """Replace the value under a key by a copy, which no alias elsewhere shares, and return it."""
    parent[key] = copy.deepcopy(parent[key])
    return parent[key]


def _put(parent: Document, key: str, values: Mapping[str, str]) -> None:
    """Set keys of a mapping, new ones in this order before its own."""
    if not parent.get(key):
        parent.pop(key, None)
        insert_key(parent, key, dict(values))
        return
    mapping = _copy_value(parent, key)
    for name, value in reversed(list(values.items())):
        insert_key(mapping, name, value)


def _add_named(items: list[Any], item: Document) -> None:
    """Insert an item unless one of its name is there: an alias is one list at two places."""
    if not any(isinstance(other, dict) and other.get("name") == item["name"] for other in items):
        items.insert(0, item)
