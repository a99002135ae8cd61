"""Names of modules: qualified name, class, its file and line. Python 3.8, stdlib only."""

from __future__ import annotations

import inspect
import os
import re
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.ranges import make_mark

if TYPE_CHECKING:
    from gpu_profile_marks.ranges import Mark

COMPILED = "OptimizedModule"  # what torch.compile makes of a module
# Children under these names are what a wrapper wraps: they have the wrapper's own name.
_TRANSPARENT = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}
_PARALLEL = {"DistributedDataParallel", "DataParallel"}
_MOST_COPIES = 32  # of a class: a program that copies its model in each step has bounded names


class Named:
    """A module's text, `transformer.h.3.attn|GPT2Attention|FILE:LINE`, and what its hooks keep.

    `forward` is the mark of its forward, `begin` the hook of its backward in a dictionary. `nodes`
    is the number of nodes of its last forward whose nodes were searched; `offsets` are the numbers
    of its first XX"""

    __slots__ = (
        *("begin", "forward", "is_compiled", "is_reduced", "module", "nodes", "offsets"),
        *("reads_spans", "text"),
    )

    def __init__(self, module: Any, text: str) -> None:  # noqa: ANN401 - a torch.nn.Module
        self.module = weakref.ref(module)
        self.text = text
        self.forward: Mark | None = None
        self.begin: Any = None
        self.nodes = 0
        self.offsets: set[int] = set()
        self.reads_spans = True
        self.is_reduced = False
        self.is_compiled = type(module).__name__ == COMPILED

    def make_forward(self) -> Mark:
        self.forward = make_mark(f"forward {self.text}")
        return self.forward


class Names:
    """The texts of modules, by identity.

    A weak reference beside the text tells whether the identity still is that of the module.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Named] = {}
        self._classes: dict[type, str] = {}
        self._prefixes: dict[int, tuple[Any, str]] = {}
        self._owners: dict[str, Any] = {}

    def find(self, module: Any) -> Named | None:  # noqa: ANN401 - a torch.nn.Module
        """Return what is known of a module, or None if it was never named."""
        named = self.by_id.get(id(module))
        return named if named is not None and named.module() is module else None

    def name_tree(self, root: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        """Name a module and all below it. A shared module keeps its first name.

        Of two models with a name in common (those of a GAN, a copy), the second has its class
        before its names, `Judge.layers.0`, with a number where the class is the same:
        `Net#2.layers.0`.
        """
        tree = list_tree(root)
        entry = self._prefixes.get(id(root))
        if entry is None or entry[0]() is not root:
            entry = self._prefixes[id(root)] = (weakref.ref(root), self._choose_prefix(tree))
        for place, name in enumerate(_qualify(tree, entry[1])):
            module = tree[place][0]
            self._name(module, name)
            self._owners[name] = weakref.ref(module)

    def name(self, module: Any) -> Named:  # noqa: ANN401 - a torch.nn.Module
        """Name a module that no named module contains: its class alone."""
        return self._name(module, "")

    def _choose_prefix(self, tree: list[tuple[Any, str]]) -> str:
        """Return "" or the first prefix that gives names which no module of another tree has."""
        model = [module for module, name in tree if not name][-1]
        if getattr(model, "_is_replica", False):  # nn.DataParallel makes copies for each forward
            return ""
        kind = _class_of(model).__name__
        inside = {id(module) for module, _ in tree}
        copies = (f"{kind}#{number}" for number in range(2, _MOST_COPIES + 1))
        for prefix in ("", kind, *copies):
            if not any(self._is_taken(name, inside) for name in _qualify(tree, prefix)):
                return prefix
        return f"{kind}#{_MOST_COPIES}"

    def _is_taken(self, name: str, inside: set[int]) -> bool:
        owner = self._owners.get(name, type(None))()
        if not name or owner is None or id(owner) in inside:
            return False
        named = self.find(owner)
        return named is not None and named.text.partition("|")[0] == name

    def _name(self, module: Any, name: str) -> Named:  # noqa: ANN401 - a torch.nn.Module
        kind = _class_of(module)
        place = self._classes.get(kind)
        if place is None:
            place = self._classes[kind] = find_class(kind)
        text = f"{(name or kind.__name__).replace('|', '/')}|{kind.__name__}|{place}"
        named = self.find(module)
        if named is None or named.text != text:
            named = self.by_id[id(module)] = Named(module, text)
        return named


def _class_of(module: Any) -> type:  # noqa: ANN401 - a torch.nn.Module
    wrapped = dict(module.named_children()).get("_orig_mod")  # by torch.compile
    return written_class(type(module if wrapped is None else wrapped))


def list_tree(root: Any) -> list[tuple[Any, str]]:  # noqa: ANN401 - a torch.nn.Module
    """Return a module and all below it, each once, with its name: "" is the root's.

    What a wrapper wraps has the wrapper's name.
    """
    tree: list[tuple[Any, str]] = []
    seen: set[int] = set()
    todo = [(root, "")]
    while todo:
        module, name = todo.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        tree.append((module, name))
        children = list(module.named_children())
        todo += [(child, _join(module, name, word)) for word, child in reversed(children)]
    return tree


def _qualify(tree: list[tuple[Any, str]], prefix: str) -> list[str]:
    """Return the names of a tree with this prefix. The innermost module without a name is the
    model; those around it are wrappers, whose class stands for their name ("" here).
    """
    last = max(place for place, (_, name) in enumerate(tree) if not name)
    model = prefix or _class_of(tree[last][0]).__name__
    names = [f"{prefix}.{name}" if prefix and name else name for _, name in tree]
    names[last] = model
    return names


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
