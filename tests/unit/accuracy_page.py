"""What docs/accuracy.md counts, from the tables of that page and of docs/accuracy-runs.md."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLES = {
    "by today's rules": ("accuracy.md", "Programs by today's rules"),
    "as first scored": ("accuracy.md", "Programs as first scored"),
    "answers of the command": ("accuracy-runs.md", "In the same minute"),
}
"""Page and heading, by the column of the count."""


def count_kinds() -> str:
    """The table of how many first findings of each kind are right, the most frequent first."""
    counts = {column: list(_list_rows(*place)) for column, place in TABLES.items()}
    kinds = sorted({kind for rows in counts.values() for kind, _ in rows})
    kinds.sort(key=lambda kind: [-_count(rows, kind)[1] for rows in counts.values()])
    body = [_make_row(_name(kind), counts, kind) for kind in kinds]
    head = f"| first finding | {' | '.join(TABLES)} |\n|---{'|---' * len(TABLES)}|"
    return "\n".join([head, *body, _make_row("all", counts, "")])


def _name(kind: str) -> str:
    return "nothing found" if kind == "nothing" else f"`{kind}`"


def _make_row(name: str, counts: Mapping[str, list[tuple[str, bool]]], kind: str) -> str:
    cells = [_count(rows, kind) for rows in counts.values()]
    words = (f"{right} of {rows}" if rows else "" for right, rows in cells)
    return f"| {name} | {' | '.join(words)} |"


def _count(rows: list[tuple[str, bool]], kind: str) -> tuple[int, int]:
    """How many rows of this kind are right, of how many; of all kinds for ""."""
    chosen = [is_right for each, is_right in rows if kind in ("", each)]
    return sum(chosen), len(chosen)


def _list_rows(page: str, heading: str) -> Iterator[tuple[str, bool]]:
    """Yield the kind of each first finding below a heading, and whether it is right."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    columns: list[str] = []
    for line in section.splitlines():
        cells = line.strip("| ").split(" | ") if line.startswith("| ") else []
        if cells[-1:] == ["right"]:
            columns = cells
        elif cells and len(cells) == len(columns):
            row = dict(zip(columns, cells, strict=True))
            findings = row.get("findings") or row["first finding"]
            yield findings.replace(",", " ").split()[0], row["right"] == "yes"
