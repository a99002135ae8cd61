"""Choose the object of a manifest whose pods are profiled, and its containers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gpu_profile.declared.object_kinds import ROWS, ObjectKind, OtherKind, PodTemplate
from gpu_profile.errors import SettingsError
from gpu_profile.manifest.advise_kind import advise_container, advise_kind
from gpu_profile.manifest.documents import Document
from gpu_profile.manifest.paths import Path, find_values, follow_beside, walk_nodes
from gpu_profile.manifest.shape import check_object, check_pods
from gpu_profile.manifest.target import Container, Target

_LONGEST = 63  # characters of a label's value


def choose_target(
    documents: Sequence[Document], file: str, *, container: str = "", template: str = ""
) -> Target:
    """Return the one object with pods, or the one that has `container`.

    `template` is the path of the pod template in a kind that the table lacks. Raises SettingsError.
    """
    for document in documents:
        check_object(document, file)
        if kind := _find_kind(document, template):
            check_pods(document, kind, file)
    targets = [
        target
        for number, document in enumerate(documents)
        if (target := _find_target(number, document, container, template))
    ]
    if not targets:
        raise _explain_none(documents, file, container, template)
    if len(targets) > 1:
        titles = ", ".join(target.title for target in targets)
        what = f"{file} has several objects with pods: {titles}"
        raise SettingsError(what, "Choose by --container NAME, or give each a file of its own")
    return targets[0]


def _find_target(number: int, document: Document, container: str, template: str) -> Target | None:
    kind = _find_kind(document, template)
    if kind is None:
        return None
    containers = tuple(_find_containers(document, kind, container))
    metadata = document.get("metadata") or {}
    name = str(metadata.get("name", ""))
    if not containers or (container and container not in {each.name for each in containers}):
        return None
    if not name and "generateName" not in metadata:
        raise SettingsError(f"a {kind.kind} has no metadata.name", "Give it one")
    if len(name) > _LONGEST:
        raise SettingsError(f"{name} is longer than {_LONGEST} characters", "Give it a shorter one")
    return Target(
        number=number,
        kind=kind,
        namespace=str(metadata.get("namespace", "")),
        name=name,
        containers=containers,
    )


def _find_kind(document: Document, template: str) -> ObjectKind | None:
    """Return the row of the document's kind, or a row made of --template; otherwise None."""
    kind, version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
    group, _, number = version.rpartition("/")
    if template and any(_has_pod(value) for _, value in find_values(document, template)):
        words = f"{number}.{group}".rstrip(".")
        return OtherKind(
            kind=kind, group=words, templates=(PodTemplate(path=template, is_counted=False),)
        )
    return next((row for row in ROWS if (row.kind, row.group) == (kind, group)), None)


def _has_pod(value: Any) -> bool:  # noqa: ANN401 - YAML
    """Return whether a value is a pod template: a mapping with spec.containers."""
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def _find_containers(document: Document, kind: ObjectKind, chosen: str) -> Iterator[Container]:
    for template in kind.templates:
        for where, value in find_values(document, template.path):
            if template.patches and isinstance(value, dict):
                pods = _count_pods(document, template, where)
                yield _read_container({**value, "name": template.container}, template, where, pods)
            if not _has_pod(value):
                continue
            container = _choose_container(value["spec"]["containers"], template, chosen, kind)
            if container is not None:
                pods = _count_pods(document, template, where)
                _require_own_command(document, kind, container)
                yield _read_container(container, template, where, pods, value["spec"])


def _require_own_command(document: Document, kind: ObjectKind, container: Document) -> None:
    """Raise SettingsError for a command that the operator would join with its own."""
    notes = (document.get("metadata") or {}).get("annotations") or {}
    keeps = str(notes.get(kind.own_command, "")).lower() == "true"
    if kind.own_command and not keeps and (container.get("command") or container.get("args")):
        what = f"container {container.get('name', '')} has a command, which {kind.kind} joins with"
        hint = f'Annotate it {kind.own_command}: "true", and start Ray in that command'
        raise SettingsError(f"{what} its own `ray start`", hint)


def _choose_container(
    containers: Sequence[Document], template: PodTemplate, chosen: str, kind: ObjectKind
) -> Document | None:
    """Return the container to edit; None where --container names one of another template."""
    names = [str(container.get("name", "")) for container in containers]
    wanted = chosen if chosen in names else template.container
    if wanted in names:
        return containers[names.index(wanted)]
    if chosen and template.ranks:
        return None
    if len(names) == 1:
        return containers[0]
    if not names:
        raise SettingsError(f"a pod of the {kind.kind} has no container", "Write one into it")
    what = f"a pod of the {kind.kind} has {len(names)} containers: {', '.join(names)}"
    raise SettingsError(what, "Choose by --container NAME")


def _count_pods(document: Document, template: PodTemplate, where: Path) -> int:
    numbers = [follow_beside(document, path, where) for path in template.counts]
    counts = [number if isinstance(number, int) else 1 for number in numbers]
    if template.leader and list(find_values(document, template.leader)):
        counts[-1] -= 1  # the last number is the size of a group, with its leader
    return math.prod(counts)


def _read_container(
    container: Document,
    template: PodTemplate,
    where: Path,
    pods: int,
    of_pod: Mapping[str, Any] = MappingProxyType({}),
) -> Container:
    security = container.get("securityContext") or {}
    rights = (security.get("capabilities") or {}).get("add") or ()
    return Container(
        name=str(container.get("name", "")),
        where=where,
        template=template,
        image=str(container.get("image", "")),
        command=tuple(map(str, container.get("command") or ())),
        args=tuple(map(str, container.get("args") or ())),
        pods=pods,
        gpus=_count_gpus(container, of_pod),
        is_privileged=bool(security.get("privileged")) or "SYS_ADMIN" in rights,
        entrypoint=template.start,
        user=_find_user({**(of_pod.get("securityContext") or {}), **security}),
    )


def _count_gpus(container: Document, of_pod: Mapping[str, Any]) -> int:
    """How many GPUs a container asks for; 1 where a claim or NVIDIA's runtime brings some.

    A claim (kubernetes.io/docs, Dynamic Resource Allocation) has neither a vendor nor a number.
    """
    resources = container.get("resources") or container.get("resourcesPerNode") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    gpus = [value for key, value in amounts.items() if str(key).startswith("nvidia.com/")]
    brought = resources.get("claims") or "nvidia" in str(of_pod.get("runtimeClassName"))
    return sum(int(value) for value in gpus if str(value).isdecimal()) or int(bool(brought))


def _find_user(security: Mapping[str, Any]) -> str:
    if security.get("runAsUser"):
        return f"user {security['runAsUser']}"
    return "no root (runAsNonRoot)" if security.get("runAsNonRoot") else ""


def _explain_none(
    documents: Sequence[Document], file: str, container: str, template: str
) -> SettingsError:
    """Return the error of a file in which nothing can be profiled."""
    if template:
        what = f"{file} has no pod template at {template}"
        return SettingsError(what, _hint_at_template(documents))
    known = [kind for document in documents if (kind := _find_kind(document, ""))]
    if known and container:
        return SettingsError(f"{file} has no container {container!r}", "Name one that it has")
    if known:
        what = f"the {known[0].kind} of {file} has no container at {known[0].templates[0].place}"
        return SettingsError(what, "Write it there, with image: and command:")
    if advised := next(filter(None, map(advise_kind, documents)), None):
        return SettingsError(f"{file}: {advised[0]}", advised[1])
    named = [document for document in documents if "kind" in document]
    kinds = ", ".join(f"{each['kind']} of {each.get('apiVersion', '?')}" for each in named)
    if any(next(_find_templates(document), "") for document in documents):
        return SettingsError(f"{file}: no known kind: {kinds or '?'}", _hint_at_template(documents))
    if advised := next(filter(None, map(advise_container, documents)), None):
        return SettingsError(f"{file}: {advised[0]}", advised[1])
    others = f": {kinds}" if kinds else ""
    return SettingsError(
        f"{file} has no object with pods{others}",
        "Name the job's own manifest, or that of a Job with its container",
    )


def _hint_at_template(documents: Sequence[Document]) -> str:
    paths = [path.split(".") for document in documents for path in _find_templates(document)]
    if not paths:
        return "Use the path of a mapping with spec.containers"
    alike = [path for path in paths if len(path) == len(paths[0])]
    words = (word[0] if len({*word}) == 1 else "*" for word in zip(*alike, strict=True))
    return f"Use --template {'.'.join('*' if word.isdecimal() else word for word in words)}"


def _find_templates(document: Document) -> Iterator[str]:
    """Yield the paths of all pod templates."""
    for where, node in walk_nodes(document):
        if where and _has_pod(node):
            yield where
