"""Read and write YAML so that comments, order and quotes stay, and compare two texts."""

import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gpu_profile.errors import SettingsError
from gpu_profile.manifest.paths import walk_nodes

Document: TypeAlias = dict[str, Any]
"""One YAML document: a mapping that keeps its comments."""

_HELM = "{{"
_DIRECTIVE = re.compile(r"^%YAML.*$", re.MULTILINE)
"""kubectl reads each text as YAML 1.1. ruamel writes 0644 anew where a text says so."""
_WIDE = 1 << 20
"""Columns of a line. A narrower text would be broken anew, which is no change of the user's."""
_INDENTS = ((2, 2, 0), (2, 4, 2), (4, 4, 0), (4, 6, 4))
"""Indents of mappings, of lists and of a list's dash: the layouts that manifests are written in."""


@dataclass(frozen=True, kw_only=True)
class YamlText:
    """The text of a file. `name` is for messages and for the difference: `fsdp.yaml`."""

    name: str
    text: str

    def parse(self) -> list[Document]:
        """Return the documents that are mappings, and those of a List each by itself.

        Raises SettingsError for a text without any.
        """
        try:
            documents = list(_make_yaml(_INDENTS[0]).load_all(_DIRECTIVE.sub("", self.text)))
        except YAMLError as error:
            raise self._make_error(error) from error
        if _HELM in self.text and _has_mapping_as_key(documents):
            raise self._make_helm_error()
        mappings = [item for document in documents for item in _list_items(document)]
        if not mappings:
            hint = "Name one with kind: and spec:, with services:, or with #SBATCH lines"
            raise SettingsError(f"{self.name} holds no object", hint)
        return mappings

    def dump(self, documents: Sequence[Document]) -> str:
        """Return the documents as YAML, in the layout that the text is written in."""
        return _dump(documents, self._find_indents())

    def _find_indents(self) -> tuple[int, int, int]:
        """Return the layout that changes the fewest of the text's lines."""
        # ruamel keeps quotes and comments, and writes all indents alike: the user's are found by
        # trying.
        lines = set(self.text.splitlines())
        documents = self.parse()

        def count_changes(indents: tuple[int, int, int]) -> int:
            return len(set(_dump(documents, indents).splitlines()) - lines)

        return min(_INDENTS, key=count_changes)

    def _make_error(self, error: YAMLError) -> SettingsError:
        if _HELM in self.text:
            return self._make_helm_error()
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        return SettingsError(f"{self.name}{where} is not YAML: {problem}", "Mend that line")

    def _make_helm_error(self) -> SettingsError:
        what = f"{self.name} is a template of helm, which is not YAML yet"
        return SettingsError(what, "Write it out first: helm template … > rendered.yaml")


def _has_mapping_as_key(documents: Sequence[Any]) -> bool:
    """Whether a key is a mapping: that is how YAML reads `name: {{ .Values.name }}`."""
    return any(
        isinstance(key, Mapping)
        for _, node in walk_nodes(documents)
        if isinstance(node, dict)
        for key in node
    )


def _list_items(document: Any) -> Iterator[Document]:  # noqa: ANN401 - YAML
    """Yield a document, or the objects of a List, as `kubectl get --output=yaml` prints several."""
    is_list = isinstance(document, dict) and document.get("kind") == "List"
    for item in (document.get("items") or ()) if is_list else (document,):
        if isinstance(item, dict):
            yield item


def _make_yaml(indents: tuple[int, int, int]) -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _WIDE
    mapping, sequence, offset = indents
    yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
    return yaml


def _dump(documents: Sequence[Document], indents: tuple[int, int, int]) -> str:
    stream = io.StringIO()
    _make_yaml(indents).dump_all(documents, stream)
    return stream.getvalue()


def compare_texts(name: str, before: str, after: str) -> str:
    """Return the unified difference of two texts, empty where there is none."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile=name,
        tofile=f"{name} under nsys",
    )
    return "".join(lines)
