"""The section of collectives, and their bus bandwidth by message size where sizes are known."""

from collections.abc import Iterable

import numpy as np

from gpu_profile.analysis.activity.comm.message_sizes import bus_bandwidth
from gpu_profile.analysis.activity.states import RankSplit, RankStates, split_exposed
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.page.charts import Bar, BarPart, draw_ranking, draw_stacked
from gpu_profile.analysis.page.parts import (
    data_table,
    format_duration,
    format_rate,
    format_size,
    format_times,
    name_bar,
    read_number,
    render_section,
    render_tag,
    render_text,
)
from gpu_profile.analysis.tables.comm_kernels import KINDS
from gpu_profile.table import Cell, Column, Table

_MOST_SIZES = 16
COLUMNS = (
    Column("Collective"),
    Column("Ranks"),
    Column("Size", "B"),
    Column("Count"),
    Column("Med Transfer", "ns"),
    Column("Bus BW", "GB/s"),
)
Known = dict[tuple[str, str, int], list[tuple[IntArray, IntArray]]]
"""Sizes and transfer times by the kernel's name, its kind and the number of ranks."""


def comm_sizes(parts: Iterable[RankStates], clock_error_ns: int = 0) -> Table:
    """One row for each kernel name, kind and size, small sizes first.

    Over 16 sizes are grouped by powers of two. The transfer time starts when the last rank has
    arrived; the row holds the median over all ranks. Bus bandwidth: see
    message_sizes.bus_bandwidth.
    """
    sizes: Known = {}
    for split in split_exposed(list(parts), clock_error_ns):
        _add_size(sizes, split)
    rows = [row for key in sorted(sizes) for row in _build_rows(*key, sizes[key])]
    return Table("comm_sizes", COLUMNS, tuple(rows))


def _add_size(sizes: Known, split: RankSplit) -> None:
    collectives = split.states.collectives
    matched = split.arrivals.is_matched & (collectives.bytes > 0)
    for code, name in enumerate(collectives.names):
        alike = matched & (collectives.name == code)
        for kind in np.unique(collectives.kind[alike]):
            for ranks in np.unique(split.arrivals.ranks[alike & (collectives.kind == kind)]):
                chosen = alike & (collectives.kind == kind) & (split.arrivals.ranks == ranks)
                start, end = collectives.start[chosen], collectives.end[chosen]
                moved = end - np.clip(split.arrivals.last[chosen], start, end)
                key = (name, KINDS[kind], int(ranks))
                sizes.setdefault(key, []).append((collectives.bytes[chosen], moved))


def _build_rows(
    name: str, kind: str, ranks: int, parts: list[tuple[IntArray, IntArray]]
) -> list[tuple[Cell, ...]]:
    size, moved = (np.concatenate(column) for column in zip(*parts, strict=True))
    group = size
    if len(np.unique(size)) > _MOST_SIZES:
        # Variable lengths (MoE, sequences) give each message a size of its own.
        group = 2 ** np.floor(np.log2(size)).astype(np.int64)
    chosen = [group == bucket for bucket in np.unique(group)]
    return [_build_row(name, kind, ranks, size[mask], moved[mask]) for mask in chosen]


def _build_row(
    name: str, kind: str, ranks: int, size: IntArray, moved: IntArray
) -> tuple[Cell, ...]:
    typical, middle = int(np.median(size)), float(np.median(moved))
    bandwidth = bus_bandwidth(typical, max(1, round(middle)), ranks, kind)
    return (
        *(name, ranks, typical, len(size) // ranks, middle),
        float(f"{bandwidth:.3g}") or None,
    )


def render_collectives(table: Table, sizes: Table, is_alone: bool = False) -> str:
    """Waiting and transfer of each collective by rank, and its bandwidth."""
    if not table.rows:
        return ""
    names = list(dict.fromkeys(map(str, table.column("Collective"))))
    groups = [_render_collective(table, name, is_alone) for name in names]
    intro = (
        "A collective's kernel waits until the last rank has arrived, and moves data only then. "
        "A rank that hardly waits is the one the others wait for."
    )
    numbers = data_table(table, "Collectives by rank")
    parts = (_render_groups(table), *groups, _render_sizes(table, sizes), numbers)
    return render_section("collectives", "Collectives", intro, *parts)


def _render_groups(table: Table) -> str:
    """A list of the communicators with their use and their ranks."""
    columns = (table.column(name) for name in ("Group", "Communicator", "Members"))
    group_rows = sorted({row for row in zip(*columns, strict=True) if row[0]}, key=str)
    lines = (
        render_tag("li", render_text(f"{group} parallel: ranks {members} (communicator {number})"))
        for group, number, members in group_rows
    )
    return render_tag("ul", *lines, class_="groups") if group_rows else ""


def _render_sizes(table: Table, sizes: Table) -> str:
    """Bus bandwidth by message size; over all messages if single sizes are not recorded."""
    rows = [
        (
            f"{name}, {format_size(read_number(size))}",
            read_number(bus),
            (f"{format_rate(read_number(bus))}, " if bus else "")
            + f"{format_times(read_number(count))}, {format_duration(read_number(ns))}",
        )
        for name, _, size, count, ns, bus in sizes.rows
    ]
    title = "Bus bandwidth by message size"
    if not rows and "Moved" in [column.name for column in table.columns]:
        names = ("Collective", "Rank", "Moved", "Count", "Bus BW")
        columns = zip(*(table.column(name) for name in names), strict=True)
        rows = [
            (
                f"rank {rank}, {name}",
                read_number(bus),
                f"{format_rate(read_number(bus))}, mean {_format_mean(moved, count)}",
            )
            for name, rank, moved, count, bus in columns
            if bus
        ]
        title = "Bus bandwidth (the sizes of single messages are not in the reports)"
    if not rows:
        return ""
    return render_tag("h3", render_text(title)) + draw_ranking(rows, title)


def _format_mean(moved: Cell, count: Cell) -> str:
    return format_size(1e6 * read_number(moved) / max(1.0, read_number(count)))


def _render_collective(table: Table, name: str, is_alone: bool) -> str:
    rows = [row for row in range(len(table.rows)) if table.column("Collective")[row] == name]
    cells = {
        key: [read_number(table.column(key)[row]) for row in rows]
        for key in ("Rank", "Total", "Wait", "Transfer", "Arrived Last")
    }
    bars = []
    for index in range(len(rows)):
        wait, moved = cells["Wait"][index], cells["Transfer"][index]
        parts = (
            BarPart("wait", "Wait for another rank", "wait", wait),
            BarPart("transfer", "Transfer of data", "transfer", moved),
            BarPart("unsplit", "Not split", "not split", cells["Total"][index] - wait - moved),
        )
        total = format_duration(cells["Total"][index])
        last = f"{total}, last in {cells['Arrived Last'][index]:.0f} %"
        label = name_bar(f"{cells['Rank'][index]:.0f}", is_alone)
        bars.append(Bar(label, parts, last))
    return render_tag("h3", render_text(name), class_="long") + draw_stacked(
        bars, max(cells["Total"]) or 1.0
    )
