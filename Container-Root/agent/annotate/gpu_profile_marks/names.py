"""Names of modules: qualified name, class, its file and line. Python 3.8, stdlib only."""

from __future__ import annotations

import inspect
import os
import re
import sys
import weakref
from pathlib import Path
from typing import Any

# Children under these names are what a wrapper wraps: they have the wrapper's own name.
_TRANSPARENT = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}
_PARALLEL = {"DistributedDataParallel", "DataParallel"}


class Names:
    """The texts of modules, by identity: `transformer.h.3.attn|GPT2Attention|FILE:LINE`.

    A weak reference beside the text tells whether the identity still is that of the module.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Any, str]] = {}
        self._classes: dict[type, str] = {}

    def text(self, module: Any) -> str | None:  # noqa: ANN401 - a torch.nn.Module
        """Return the module's text, or None if it was never named."""
        entry = self._texts.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else None

    def name_tree(self, root: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        """Name a module and all below it. A shared module keeps its first name."""
        seen: set[int] = set()
        todo = [(root, "")]
        while todo:
            module, name = todo.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            self._name(module, name)
            children = list(module.named_children())
            todo += [(child, _join(module, name, word)) for word, child in reversed(children)]

    def name(self, module: Any) -> str:  # noqa: ANN401 - a torch.nn.Module
        """Name a module that no named module contains: its class alone."""
        return self._name(module, "")

    def _name(self, module: Any, name: str) -> str:  # noqa: ANN401 - a torch.nn.Module
        wrapped = dict(module.named_children()).get("_orig_mod")  # by torch.compile
        kind = written_class(type(module if wrapped is None else wrapped))
        place = self._classes.get(kind)
        if place is None:
            place = self._classes[kind] = find_class(kind)
        text = f"{(name or kind.__name__).replace('|', '/')}|{kind.__name__}|{place}"
        self._texts[id(module)] = (weakref.ref(module), text)
        return text


def _join(parent: Any, name: str, child: str) -> str:  # noqa: ANN401 - a torch.nn.Module
    wrapped = child == "module" and type(parent).__name__ in _PARALLEL
    if wrapped or child in _TRANSPARENT:
        return name
    return f"{name}.{child}" if name else child


def written_class(kind: type) -> type:
    """Return the class that somebody wrote.

    FSDP2 and parametrizations derive one at run time: `FSDPLinear` and `ParametrizedLinear` of
    `Linear`.
    """
    for base in kind.__bases__:
        if base.__name__ != "Module" and kind.__name__ in (
            f"FSDP{base.__name__}",
            f"Parametrized{base.__name__}",
        ):
            return base
    return kind


def find_class(kind: type) -> str:
    """Return `FILE:LINE` of a class, or "" if it was typed in. No home directory is in it."""
    try:
        file = inspect.getsourcefile(kind) or ""
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except (TypeError, OSError):
        return ""
    # inspect.getsourcelines parses the whole file: 50 ms for one of transformers.
    pattern = re.compile(rf"^[ \t]*class[ \t]+{re.escape(kind.__name__)}\b", re.MULTILINE)
    lines = [text.count("\n", 0, match.start()) + 1 for match in pattern.finditer(text)]
    code = getattr(kind.__dict__.get("forward"), "__code__", None)
    before = [line for line in lines if code is None or line <= code.co_firstlineno]
    return f"{short_path(kind.__module__, file)}:{before[-1]}" if before else ""


def short_path(module: str, file: str) -> str:
    """Return the path relative to the top package, otherwise to the working directory."""
    package = sys.modules.get(module.partition(".")[0])
    root = getattr(package, "__path__", None) if module != "__main__" else None
    if root is not None:
        depth = len(module.split("."))
        parts = Path(file).parts
        return "/".join(parts[-depth - (parts[-1] == "__init__.py") :])
    relative = os.path.relpath(file)
    return Path(file).name if relative.startswith(os.pardir) else relative.replace(os.sep, "/")
