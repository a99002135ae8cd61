"""An icicle of the model: its modules by GPU time, with the kernels of each."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.modules.marks import ACCUMULATE, BACKWARD
from gpu_profile.analysis.modules.module_kernels import ModuleKernel, list_module_kernels
from gpu_profile.analysis.modules.owners import UNATTRIBUTED
from gpu_profile.analysis.page.parts import (
    format_duration,
    format_percent,
    render_legend,
    render_section,
    render_tag,
    render_text,
)
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

_MOST_BOXES, _MOST_KERNELS = 2000, 12
_DEEPEST, _MOST_DIGITS = 24, 9
_ROW_PX = 23
_ALL, _NO_MODULE = "all kernels", f"({UNATTRIBUTED})"


@dataclass
class _Node:
    """A part of a module's name, the modules in it, and its own kernels by (name, work)."""

    path: str
    kind: str = ""
    inner: "dict[str, _Node]" = field(default_factory=dict)
    kernels: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    time: int = 0
    backward: int = 0

    def add(self, kernel: ModuleKernel) -> None:
        self.time += kernel.time
        self.backward += kernel.time if kernel.work in (BACKWARD, ACCUMULATE) else 0

    def add_own(self, kernel: ModuleKernel) -> None:
        self.kernels[kernel.kernel, kernel.work] += kernel.time
        self.counts[kernel.kernel, kernel.work] += kernel.count


def modules_part(database: Database, scope: Scope) -> list[ModuleKernel]:
    """The kernels by module of one report's ranks."""
    activities = activities_of(database, scope)
    return [kernel for activity in activities for kernel in list_module_kernels(activity)]


def model_icicle(
    parts: Sequence[ModuleKernel], redactor: Redactor, *, is_alone: bool = False
) -> str:
    """The icicle over all ranks; "" without marks of modules, or without GPU time in them.

    Names are redacted by `redactor`.
    """
    root = _make_tree(parts)
    if not root.time or not any(kernel.module.is_real for kernel in parts):
        return ""
    boxes = list(_list_boxes(root, 0, 0))[:_MOST_BOXES]
    clean_texts: dict[str, str] = {}
    data = [_describe(node, redactor, clean_texts) for node, _, _ in boxes]
    shapes = [
        _draw_box(number, node, row, offset, root.time, data[number][0])
        for number, (node, row, offset) in enumerate(boxes)
    ]
    depth = 1 + max(row for _, row, _ in boxes)
    drawing = render_tag(
        "div", *shapes, class_="icicle", id="icicle", style=f"height:{depth * _ROW_PX}px"
    )
    # No name may end the script element: JSON reads the escape as `<`.
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    script = f'<script type="application/json" id="icicle-data">{content}</script>\n'
    keys = (("m-forward", "forward and the rest"), ("m-backward", "backward"))
    legend = render_legend(keys) if root.backward else ""
    intro = (
        f"GPU time{'' if is_alone else ' of all ranks'} in the steady steps. A box is a module, "
        "the modules in it lie under it. Click one (or use the arrow keys and Enter) to zoom in "
        "and to see its kernels."
    )
    return render_section("model", "The model", intro, legend, _TOOLS, drawing, _PANEL, script)


def _make_tree(parts: Sequence[ModuleKernel]) -> _Node:
    root = _Node("")
    for kernel in parts:
        node = root
        node.add(kernel)
        for path, name in _list_steps(kernel):
            node = node.inner.setdefault(name, _Node(path))
            node.add(kernel)
        node.kind = kernel.module.kind
        if kernel.count:
            node.add_own(kernel)
    return root


def _list_steps(kernel: ModuleKernel) -> Iterator[tuple[str, str]]:
    """Yield (path, name) of each box from the outermost one to that of the module."""
    module = kernel.module
    if module.kind == UNATTRIBUTED:
        yield _NO_MODULE, _NO_MODULE
        yield f"{_NO_MODULE} {module.name.strip('()')}", module.name.strip("()")
        return
    yield from ((name, name) for name in kernel.around)
    if module.is_nameless or not module.is_real:
        yield module.name, module.name
        return
    names = module.name.split(".")[:_DEEPEST]
    for depth, name in enumerate(names, 1):
        yield ".".join(names[:depth]), name


def _list_boxes(node: _Node, row: int, offset: int) -> Iterator[tuple[_Node, int, int]]:
    """Yield (node, row, ns to the left of it); layers by number, other modules the widest first."""
    yield node, row, offset
    for _, inner in sorted(node.inner.items(), key=_sort_key):
        if inner.time:
            yield from _list_boxes(inner, row + 1, offset)
            offset += inner.time


def _sort_key(pair: tuple[str, _Node]) -> tuple[int, int, str]:
    name, node = pair
    is_layer = name.isdecimal() and len(name) < _MOST_DIGITS
    return (0, int(name), name) if is_layer else (1, -node.time, name)


def _describe(node: _Node, redactor: Redactor, texts: dict[str, str]) -> list[object]:
    """[path, class, ns, ns backward, kernels] for the script; kernels of the module and those in
    it as [name, work, ns, launches], the longest first.
    """
    kernels, counts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for descendant in _walk(node):
        kernels.update(descendant.kernels)
        counts.update(descendant.counts)
    longest = sorted(kernels, key=lambda key: (-kernels[key], key))

    def clean_text(text: str) -> str:
        if text not in texts:
            texts[text] = redactor.text(text[:500])
        return texts[text]

    rows = [[clean_text(k[0]), k[1], kernels[k], counts[k]] for k in longest[:_MOST_KERNELS]]
    more_ns = sum(kernels[key] for key in longest[_MOST_KERNELS:])
    more = [[f"{len(longest) - _MOST_KERNELS} more", "", more_ns, None]] if more_ns else []
    path = clean_text(node.path) if node.path else _ALL
    return [path, clean_text(node.kind), node.time, node.backward, rows + more]


def _walk(node: _Node) -> Iterator[_Node]:
    yield node
    for inner in node.inner.values():
        yield from _walk(inner)


def _draw_box(number: int, node: _Node, row: int, offset: int, total: int, path: object) -> str:
    share, backward = node.time / total, node.backward / max(node.time, 1)
    title = f"{path}: {format_duration(node.time)}, {format_percent(share)}"
    title += f"; {format_percent(backward)} of it backward" if node.backward else ""
    place = f"left:{100 * offset / total:.4f}%;width:{100 * share:.4f}%;top:{row * _ROW_PX}px"
    name = str(path).rpartition(".")[2]
    return render_tag(
        "button",
        render_text(name),
        type="button",
        style=f"{place};--backward:{100 * backward:.0f}%",
        title=title,
        tabindex=0 if number == 0 else -1,
        data_box=number,
    )


_TOOLS = """
<div class="tools"><input type="search" class="search" id="icicle-search" placeholder="Search modules and kernels"
aria-label="Search modules and kernels"><output id="icicle-found" aria-live="polite"></output></div>
"""  # noqa: E501 - HTML
_PANEL = """
<div class="panel" id="icicle-panel" aria-live="polite"></div>
<noscript><p class="note">Zoom, search and the kernels need JavaScript; the table module_sum does not.
</p></noscript>
"""  # noqa: E501 - HTML
