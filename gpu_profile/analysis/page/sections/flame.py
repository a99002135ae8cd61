"""A flame graph of the host threads that launch the GPU work."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.host.samples import HostSamples, samples_of
from gpu_profile.analysis.page.parts import (
    format_percent,
    render_folded,
    render_legend,
    render_section,
    render_tag,
    render_text,
)
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

# Boxes below 0.2 % of the width cannot be read or pointed at.
_LEAST = 0.002
_DEEPEST, _MOST_BOXES = 48, 1500
_ROW_PX = 19
_LABEL_FROM = 0.03


@dataclass
class _Node:
    """A function below its callers: samples in it and its callees, and how many of them while
    idle.
    """

    samples: int = 0
    idle: int = 0
    inner: "dict[str, _Node]" = field(default_factory=dict)

    def add(self, stack: Sequence[str], samples: int, idle: int) -> None:
        node = self
        for name in ("", *stack[:_DEEPEST]):
            node = node.inner.setdefault(name, _Node()) if name else node
            node.samples += samples
            node.idle += idle


def flame_part(database: Database, scope: Scope) -> list[HostSamples]:
    """The samples of one report's ranks, by kind."""
    return samples_of(activities_of(database, scope), database)


def flame(
    parts: Sequence[HostSamples], redactor: Redactor, most: int = 8, is_alone: bool = False
) -> str:
    """One graph for each rank and kind, the first one open; "" without samples.

    Names of functions and files are redacted by `redactor`.
    """
    ranks = sorted(parts, key=lambda part: (part.kind != "Python", part.rank))[:most]
    if not ranks:
        return ""
    intro = (
        "Samples of the threads that launch GPU work, after start-up. A box is a "
        "function, what it called lies under it, and its width is its part of the samples."
    )
    keys = render_legend(
        (("f-idle", "while the GPU idled because of the host"), ("f-busy", "otherwise"))
    )
    graphs = [
        _draw_graph(rank, redactor, len(ranks) > 1, index == 0, is_alone)
        for index, rank in enumerate(ranks)
    ]
    return render_section("host", "What the host did", intro, keys, *graphs)


def _draw_graph(
    rank: HostSamples, redactor: Redactor, several: bool, first: bool, is_alone: bool
) -> str:
    root = _Node()
    names = {name for stack, *_ in rank.stacks for name in stack}
    texts = {name: redactor.text(name) for name in names}
    for stack, samples, idle in rank.stacks:
        root.add([texts[name] for name in stack], samples, idle)
    boxes = list(_draw_boxes(root, root.samples, 0, 0))[:_MOST_BOXES]
    depth = 1 + max((row for row, _ in boxes), default=0)
    about = f"{root.samples:,} {rank.kind} samples"
    if not is_alone:
        about = f"rank {rank.rank}: {about}"
    drawing = render_tag(
        "div",
        *(box for _, box in boxes),
        class_="flame",
        role="img",
        aria_label=f"Flame graph of {about}",
        style=f"height:{depth * _ROW_PX}px",
    )
    return render_folded(about, drawing, open_=first) if several else drawing


def _draw_boxes(node: _Node, total: int, row: int, offset: int) -> Iterator[tuple[int, str]]:
    """Yield (row, box) of the functions that the node called, widest first."""
    for name, inner in sorted(node.inner.items(), key=lambda pair: (-pair[1].samples, pair[0])):
        share = inner.samples / total
        if share >= _LEAST:
            yield row, _draw_box(name, inner, share, row, offset / total)
            yield from _draw_boxes(inner, total, row + 1, offset)
        offset += inner.samples


def _draw_box(name: str, node: _Node, share: float, row: int, offset: float) -> str:
    idle = node.idle / node.samples
    shares = f"{format_percent(share)}; {format_percent(idle)} while GPU idle"
    title = f"{name}: {node.samples:,} samples, {shares}"
    # Shares of the width, so that the graph fits any window and needs no script.
    style = f"left:{100 * offset:.3f}%;width:{100 * share:.3f}%;top:{row * _ROW_PX}px"
    shade = f"--idle-part:{100 * idle:.0f}%"
    label = render_text(name) if share >= _LABEL_FROM else ""
    return render_tag("span", label, style=f"{style};{shade}", title=title)
