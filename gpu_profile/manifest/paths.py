"""Find and set values in a document by paths such as `spec.replicatedJobs.*.template`."""

from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""


def find_values(document: Any, path: str) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401 - YAML
    """Yield each value at `path`, in which `*` is any key or item, with its own path."""
    yield from _find(document, path.split(".") if path else [], ())


def _find(node: Any, keys: Sequence[str], where: Path) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401
    if not keys:
        yield where, node
        return
    for key in _list_keys(node, keys[0]):
        yield from _find(node[key], keys[1:], (*where, key))


def _list_keys(node: Any, word: str) -> list[str | int]:  # noqa: ANN401 - YAML
    """Return the keys of a mapping, or the positions of a list, that a word of a path means."""
    if isinstance(node, list):
        positions: list[str | int] = list(range(len(node)))
        return positions if word == "*" else [n for n in positions if str(n) == word]
    if isinstance(node, dict):
        return list(node) if word == "*" else [key for key in (word,) if key in node]
    return []


def walk_nodes(document: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - YAML
    """Yield each value with its path. 40 lines of aliases can name 10^19 nodes: each once."""
    nodes: list[tuple[str, Any]] = [("", document)]
    seen = {id(document)}
    for where, node in nodes:
        yield where, node
        items: Any = node.items() if isinstance(node, dict) else ()
        items = enumerate(node) if isinstance(node, list) else items
        new = [(f"{where}.{key}".lstrip("."), each) for key, each in items if id(each) not in seen]
        seen |= {id(each) for _, each in new if isinstance(each, (dict, list))}
        nodes += new


def follow_beside(document: Any, path: str, where: Path) -> Any:  # noqa: ANN401 - YAML
    """Return the value at `path`, whose `*` mean the keys at the same places of `where`.

    None where there is no such value: the replicas of `where`'s own template, for example.
    """
    node = document
    for number, word in enumerate(path.split(".")):
        key = where[number] if word == "*" else word
        if not _list_keys(node, str(key)):
            return None
        node = node[key]
    return node


def set_value(document: Any, path: str, value: str | bool | int) -> None:  # noqa: ANN401 - YAML
    """Set the value at `path`. Mappings on the way are made."""
    *keys, last = path.split(".")
    node = document
    for key in keys:
        if not node.get(key):
            node.pop(key, None)
            insert_key(node, key, {})
        node = node[key]
    insert_key(node, last, value)


def insert_key(mapping: Any, key: str, value: object, *, at: int = 0) -> None:  # noqa: ANN401
    """Set a key. A new one does not come last, where ruamel puts it after the next comment."""
    if key in mapping:
        mapping[key] = value
    elif hasattr(mapping, "insert"):
        mapping.insert(min(at, len(mapping)), key, value)
    else:
        mapping[key] = value
