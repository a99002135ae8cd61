"""Refuse an object whose values are not of the type that Kubernetes gives them, in one line."""

from typing import Any

from gpu_profile.declared.object_kinds import ObjectKind
from gpu_profile.errors import SettingsError
from gpu_profile.manifest.documents import Document
from gpu_profile.manifest.paths import find_values

_TYPES = {"a mapping": dict, "a list": list, "a number": int}
_OF_OBJECT = {
    "metadata": "a mapping",
    "metadata.labels": "a mapping",
    "metadata.annotations": "a mapping",
}
_OF_CONTAINER = {
    "": "a mapping",
    "command": "a list",
    "args": "a list",
    "env": "a list",
    "env.*": "a mapping",
    "volumeMounts": "a list",
    "volumeMounts.*": "a mapping",
    "resources": "a mapping",
    "resources.requests": "a mapping",
    "resources.limits": "a mapping",
    "securityContext": "a mapping",
    "securityContext.capabilities": "a mapping",
}
_OF_POD = {
    **_OF_OBJECT,
    "spec.terminationGracePeriodSeconds": "a number",
    "spec.securityContext": "a mapping",
    "spec.volumes": "a list",
    "spec.volumes.*": "a mapping",
    "spec.initContainers": "a list",
    **{f"spec.containers.*.{path}".rstrip("."): name for path, name in _OF_CONTAINER.items()},
}
"""What is read or edited, parents first (kubernetes.io/docs, API reference, Pod v1)."""


def check_object(document: Document, file: str) -> None:
    """Raise SettingsError for metadata of another type."""
    _check(document, "", _OF_OBJECT, file)


def check_pods(document: Document, kind: ObjectKind, file: str) -> None:
    """Raise SettingsError for a part of the kind's pod templates that has another type."""
    for template in kind.templates:
        _check(document, template.path, _OF_CONTAINER if template.patches else _OF_POD, file)


def _check(document: Document, root: str, types: dict[str, str], file: str) -> None:
    for path, name in types.items():
        for where, value in find_values(document, f"{root}.{path}".strip(".")):
            if value is not None and not _is_of(value, name):
                place = ".".join(map(str, where))
                hint = _HINTS.get(str(where[-1]), _HINTS[name])
                raise SettingsError(f"{place} of {file} is not {name}", hint)


def _is_of(value: Any, name: str) -> bool:  # noqa: ANN401 - YAML
    return isinstance(value, _TYPES[name]) and not isinstance(value, bool)


_HINTS = {
    "command": 'Write one: ["sh", "-c", "python train.py"]',
    "args": 'Write one: ["--lr", "0.1"]',
    "a list": "Write - before each item",
    "a mapping": "Write name: value lines there",
    "a number": "Write it without quotes",
}
