"""YAML of our own, read and written by libyaml where PyYAML has it.

PyYAML's own Python takes 30 times as long: 35 ms of CPU for a file of k8s/.
"""

from collections.abc import Iterable
from typing import Any

import yaml

try:
    from yaml import CSafeDumper as _Dumper
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeDumper as _Dumper  # type: ignore[assignment]
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


def load_yaml(text: str) -> Any:  # noqa: ANN401 - any YAML
    """Return the document of a text.

    libyaml's reader has no limit of depth: yaml.safe_load is for what users write.
    """
    return yaml.load(text, _Loader)


def load_all_yaml(text: str) -> list[Any]:
    return list(yaml.load_all(text, _Loader))


def dump_all_yaml(documents: Iterable[object]) -> str:
    """Return the text of documents. Keys keep their order."""
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False)
    return text


class _Readable(_Dumper):
    """A YAML dumper that writes scripts as blocks (`|`) if YAML allows it for the text."""


def _draw_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if text.endswith("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _draw_text)


def dump_yaml(document: object) -> str:
    """Return the text of a document, with scripts as blocks. Keys keep their order."""
    text: str = yaml.dump(document, Dumper=_Readable, sort_keys=False, width=100)
    return text
