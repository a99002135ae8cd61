"""UserManifest: a file of the user's with the object in it that is profiled."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gpu_profile.errors import SettingsError
from gpu_profile.manifest.choose_target import choose_target
from gpu_profile.manifest.documents import Document, YamlText, compare_texts
from gpu_profile.manifest.edit import Edit, edit_object
from gpu_profile.manifest.target import Container, Target

_SERVERS_OWN = ("managedFields", "uid", "creationTimestamp", "generation", "selfLink")
"""What the API server writes into metadata for itself."""
_VERSION = "resourceVersion"
"""`kubectl create` refuses an object with it, and `kubectl apply` one that has changed since."""
_OF_OWNER = ("pod-template-hash", "controller-revision-hash")
"""Labels by which a controller counts a pod as its own: it would delete ours as one too many."""
_NEEDS = ("Namespace", "ServiceAccount", "Secret")


@dataclass(frozen=True, kw_only=True)
class EditedManifest:
    """The texts of a manifest: all of it before and after the edit, its object, and the others."""

    name: str
    before: str
    after: str
    target: str
    others: str

    @property
    def difference(self) -> str:
        """The unified difference that --dry-run prints."""
        return compare_texts(self.name, self.before, self.after)


@dataclass(frozen=True, kw_only=True)
class UserManifest:
    """The YAML of a file, and the object in it whose pods are profiled."""

    yaml: YamlText
    target: Target

    @classmethod
    def read(cls, yaml: YamlText, *, container: str = "", template: str = "") -> "UserManifest":
        """Return the manifest in a text. Raises SettingsError for what cannot be profiled."""
        documents = yaml.parse()
        target = choose_target(documents, yaml.name, container=container, template=template)
        return cls(yaml=yaml, target=target)

    def of_cluster(self, item: Mapping[str, Any]) -> "UserManifest":
        """Return the manifest of the object as the cluster has it, in which the same is chosen.

        It keeps resourceVersion: a change in between makes the cluster refuse ours.
        """
        # A deep copy as plain data.
        document = json.loads(json.dumps(item))
        _drop_servers_own(document, _SERVERS_OWN)
        text = yaml.safe_dump(document, sort_keys=False)
        manifest = YamlText(name=f"{self.target.title} of the cluster", text=text)
        names = [container.name for container in self.target.containers]
        return UserManifest.read(manifest, container=names[0])

    def get_pod_spec(self) -> dict[str, Any]:
        """Return the spec of the first pod template as plain data."""
        node: Any = self.yaml.parse()[self.target.number]
        for key in self.target.containers[0].where:
            node = node[key]
        spec: dict[str, Any] = json.loads(json.dumps(node.get("spec", {})))
        return spec

    def list_others(self) -> tuple[str, ...]:
        """Return what stands beside the target, such as `Service train`."""
        documents = self.yaml.parse()
        others = [doc for number, doc in enumerate(documents) if number != self.target.number]
        return tuple(
            f"{doc.get('kind', 'object')} {(doc.get('metadata') or {}).get('name', '')}".strip()
            for doc in others
        )

    def dump_needs(self) -> str:
        """Return what any pod of the target needs to be made, where that stands beside it."""
        documents = self.yaml.parse()
        needs = [document for document in documents if document.get("kind") in _NEEDS]
        for document in needs:
            _drop_servers_own(document)
        return self.yaml.dump(needs) if needs else ""

    def list_images(self) -> tuple[str, ...]:
        """Return the images whose own entrypoint has to be known, each once."""
        lacking = [
            c
            for c in self.target.containers
            if c.image and c.is_wrapped and not c.command and not c.template.start
        ]
        return tuple(dict.fromkeys(container.image for container in lacking))

    def with_entrypoints(self, entrypoints: Mapping[str, "Entrypoint"]) -> "UserManifest":
        """Return the manifest with the command of each image in `entrypoints`, by its address."""

        def fill(container: Container) -> Container:
            if container.image not in entrypoints or container.command:
                return container
            words = entrypoints[container.image].make_command(has_args=bool(container.args))
            return dataclasses.replace(container, entrypoint=words)

        containers = tuple(map(fill, self.target.containers))
        target = dataclasses.replace(self.target, containers=containers)
        return dataclasses.replace(self, target=target)

    def edit(self, edit: Edit) -> EditedManifest:
        """Return the manifest before and after the edit. Raises SettingsError without a command."""
        self._require_commands()
        if edit.plan.needs_privileges:
            self._require_rights()
        if edit.place.takes_root:
            self._require_root(edit.place.host_path)
        documents = self.yaml.parse()
        number = self.target.number
        before = self.yaml.dump(documents)
        if not edit.keeps_original:
            for document in documents:
                _drop_servers_own(document)
        edit_object(documents[number], self.target, edit)
        others = [document for n, document in enumerate(documents) if n != number]
        return EditedManifest(
            name=self.yaml.name,
            before=before,
            after=self.yaml.dump(documents),
            target=self.yaml.dump([documents[number]]),
            others=self.yaml.dump(others) if others else "",
        )

    def _require_rights(self) -> None:
        """Raise SettingsError unless nsys may sample CPUs in each container with ranks."""
        for container in self.target.containers:
            if not container.template.starter and not container.is_privileged:
                what = f"CPU sampling needs SYS_ADMIN, which container {container.name} has not"
                hint = "Add it to securityContext.capabilities.add, or leave the option out"
                raise SettingsError(what, hint)

    def _require_root(self, host_path: str) -> None:
        """Raise SettingsError for a container that the manifest keeps from being root."""
        for container in self.target.containers:
            if container.user:
                what = f"hostpath:{host_path} is root's alone, and container {container.name} is"
                raise SettingsError(f"{what} {container.user}", "Use --report-to pvc: or s3:")

    def _require_commands(self) -> None:
        for container in self.target.containers:
            if not container.image:
                what = f"container {container.name} of {self.yaml.name} has no image:"
                raise SettingsError(what, "Write it there; nsys runs in it")
            if container.is_wrapped and not container.words:
                what = f"container {container.name} of {self.yaml.name} has no command:"
                raise SettingsError(what, "Write the image's own there; it is what nsys starts")


def _drop_servers_own(document: Document, keys: Sequence[str] = (*_SERVERS_OWN, _VERSION)) -> None:
    """Remove what the cluster has added to an object that `kubectl get --output=yaml` printed."""
    document.pop("status", None)
    metadata = document.get("metadata") or {}
    if document.get("kind") == "Pod" and "uid" in metadata:
        _release_pod(document)
    for key in keys:
        metadata.pop(key, None)


def _release_pod(pod: Document) -> None:
    """Remove what ties a pod that was printed to its owner, and to the node that it runs on."""
    pod["metadata"].pop("ownerReferences", None)
    (pod.get("spec") or {}).pop("nodeName", None)
    for label in _OF_OWNER:
        (pod["metadata"].get("labels") or {}).pop(label, None)


@dataclass(frozen=True, kw_only=True)
class Entrypoint:
    """The ENTRYPOINT and CMD of an image."""

    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]

    def make_command(self, *, has_args: bool) -> tuple[str, ...]:
        """Return what a container without `command:` starts: `args:` take the place of CMD."""
        return self.entrypoint if has_args else (*self.entrypoint, *self.cmd)
