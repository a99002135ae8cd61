"""What to profile in place of an object whose controller makes its pods in a way of its own."""

import shlex
from collections.abc import Iterator
from typing import Any

from gpu_profile.manifest.documents import Document
from gpu_profile.manifest.paths import walk_nodes

_PRINTS = "--dry-run=client --output=yaml"
_OF_SERVICE = "--selector=serving.kserve.io/inferenceservice="
"""KServe's label on the pods of an InferenceService."""


def advise_kind(document: Document) -> tuple[str, str] | None:
    """Why this object is not profiled itself, and what to type; None for another kind."""
    kind, name, within = document.get("kind"), _quote_name(document), _name_space(document)
    if kind == "CronJob":
        prints = f"`kubectl create job once --from=cronjob/{name}{within} {_PRINTS}` prints one"
        return "a CronJob starts Jobs at its own times", prints
    if kind == "InferenceService":
        pods = f"`kubectl get pod{within} {_OF_SERVICE}{name} --output=yaml > pod.yaml`"
        then = "give the pod in it another metadata.name, and profile that file"
        return "KServe makes the pods of an InferenceService", f"{pods}, {then}"
    return None


def advise_container(document: Document) -> tuple[str, str] | None:
    """What advise_kind() tells, for another object that holds an image and its command."""
    container = next(_find_containers(document), None)
    if container is None:
        return None
    image, command = shlex.quote(container["image"]), shlex.join(_list_words(container))
    create = f"kubectl create job once --image={image}{_name_space(document)}"
    prints = f"`{create} {_PRINTS} -- {command}` prints a Job of its container"
    what = f"the controller of a {document.get('kind')} makes its pods by itself"
    return what, f"{prints}: add its resources, and profile that"


def _quote_name(document: Document) -> str:
    return shlex.quote(str((document.get("metadata") or {}).get("name") or "NAME"))


def _name_space(document: Document) -> str:
    space = (document.get("metadata") or {}).get("namespace")
    return f" --namespace={shlex.quote(str(space))}" if space else ""


def _find_containers(document: Document) -> Iterator[dict[str, Any]]:
    """Yield what has an image and a command."""
    for _, node in walk_nodes(document):
        if isinstance(node, dict) and isinstance(node.get("image"), str) and _list_words(node):
            yield node


def _list_words(container: dict[str, Any]) -> list[str]:
    """The words of a container; none without a command, or of a script that is its input."""
    command, args = container.get("command"), container.get("args")
    if not isinstance(command, list) or "source" in container:
        return []
    return [str(word) for word in (*command, *(args if isinstance(args, list) else ()))]
