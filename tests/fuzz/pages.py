"""A real report with some bytes changed: what we read, against what Python's sqlite3 reads.

    .venv/bin/python -m tests.fuzz.pages --seed 1 --count 20000

Each mutation must give sqlite3's numbers, or one refusal; never a traceback, a hang, or growth.
"""

import argparse
import gc
import gzip
import json
import random
import sqlite3
import struct
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.fuzz.cells import change_cells
from tests.fuzz.child import Tally, check_in_child
from tests.fuzz.whole_report import ANALYSED, COLUMNS, check

DATA = Path(__file__).parents[1] / "data"
RECORDED = DATA / "h200x4-ddp" / "rank0.sqlite.gz"
SMALL = (
    *(f"annotated/{name}/rank0.sqlite.gz" for name in ("gemm", "gnn", "graphs", "compiled")),
    *(f"h200-tables/{name}.sqlite.gz" for name in ("window", "graphs-by-graph", "graphs-by-node")),
    *("unprepared/windows/rank0.node.1.sqlite.gz", "unprepared/symmetric_memory/rank0.sqlite.gz"),
)
"""Reports of 0.3 to 0.7 MB, of different programs and versions of nsys."""
ANALYSES_EACH, PAGE_SHARE = 6, 0.2
"""What is read of a mutation beside its columns: so many tables or parts, and sometimes all."""
KINDS = (
    *("leafhead", "leafptr", "cellhead", "interior", "interiorptr", "anywhere", "dbheader"),
    *("varint", "child", "type", "schema", "truncate", "copied page", "torn page", "zeroed page"),
    "cells",
)
NASTY = (0, 1, 2, 5, 10, 13, 0x7F, 0x80, 0x81, 0xFF, 0xFE)
Tree = tuple[list[int], list[int]]


def recorded(packed: Path = RECORDED) -> bytes:
    return gzip.decompress(packed.read_bytes())


@dataclass(frozen=True)
class Base:
    """The report to change: its bytes, and the interior and leaf pages of each table."""

    content: bytes
    page: int
    trees: dict[str, Tree]

    @classmethod
    def of(cls, content: bytes) -> "Base":
        page = int.from_bytes(content[16:18], "big")
        with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
            file.write(content)
            file.flush()
            with closing(sqlite3.connect(file.name)) as database:
                rows = database.execute("SELECT name, rootpage FROM sqlite_master").fetchall()
        roots = {name: root for name, root in rows if name in COLUMNS}
        return cls(content, page, {name: tree(content, page, roots[name]) for name in roots})

    def number(self, place: int, size: int) -> int:
        return int.from_bytes(self.content[place : place + size], "big")


def tree(content: bytes, page: int, root: int) -> Tree:
    """The pages of a table, numbered from 1."""
    interior, leaves, pending = list[int](), list[int](), [root]
    while pending:
        number = pending.pop()
        start = (number - 1) * page
        if content[start] == 13:
            leaves.append(number)
            continue
        interior.append(number)
        for index in range(int.from_bytes(content[start + 3 : start + 5], "big")):
            place = start + 12 + 2 * index
            cell = start + int.from_bytes(content[place : place + 2], "big")
            pending.append(int.from_bytes(content[cell : cell + 4], "big"))
        pending.append(int.from_bytes(content[start + 8 : start + 12], "big"))
    return interior, leaves


def mutate(
    base: Base, generator: random.Random, kinds: Sequence[str] = KINDS
) -> tuple[bytes, str, list[str]]:
    """The changed report, the kind of change, and what was changed where."""
    data, notes = bytearray(base.content), list[str]()
    kind = generator.choice(kinds)
    if kind == "truncate":
        length = generator.randrange(len(data))
        return bytes(data[:length]), kind, [f"truncated to {length}"]
    if kind == "cells":
        content, statements = change_cells(base.content, generator)
        return content, kind, statements
    if kind.endswith(" page"):
        return bytes(data), kind, [_change_page(base, data, kind, generator)]
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        if kind == "child":
            notes.append(_change_child(base, data, generator))
            continue
        place = _place(base, kind, generator)
        flips = [data[place] ^ (1 << generator.randrange(8))] * 4
        value = generator.choice([*NASTY, *[generator.randrange(256)] * 6, *flips])
        notes.append(f"page {place // base.page + 1}+{place % base.page}: {value:02x}")
        data[place] = value
    return bytes(data), kind, notes


def _change_page(base: Base, data: bytearray, kind: str, generator: random.Random) -> str:
    """Write another page, a part of it, or zeros over a page, as a disk does that lost a write."""
    start = _pick(base, generator, generator.randrange(2))
    source = generator.randrange(len(data) // base.page) * base.page
    begin = generator.randrange(base.page) if kind == "torn page" else 0
    size = base.page - begin
    other = bytes(size) if kind == "zeroed page" else data[source + begin : source + base.page]
    data[start + begin : start + base.page] = other
    return f"page {start // base.page + 1}, from byte {begin}: page {source // base.page + 1}"


def _pick(base: Base, generator: random.Random, level: int) -> int:
    """Where a page of a table starts: an interior one (level 0), or a leaf (1)."""
    tables = [pages for pages in base.trees.values() if pages[level]]
    return (generator.choice(generator.choice(tables)[level]) - 1) * base.page


def _place(base: Base, kind: str, generator: random.Random) -> int:
    """The byte to change."""
    pick = generator.randrange
    if kind in ("interior", "interiorptr"):
        start = _pick(base, generator, 0)
        cells = base.number(start + 3, 2)
        return start + (pick(12) if kind == "interior" else 12 + pick(max(1, 2 * cells)))
    if kind in ("leafhead", "leafptr", "cellhead", "varint", "type"):
        start = _pick(base, generator, 1)
        cells = max(1, base.number(start + 3, 2))
        if kind == "leafhead":
            return start + pick(8)
        if kind == "leafptr":
            return start + 8 + pick(2 * cells)
        cell = base.number(start + 8 + 2 * pick(cells), 2)
        return min(start + cell + pick(3 if kind == "varint" else 24), len(base.content) - 1)
    if kind == "dbheader":
        return pick(16, 100)
    return pick(100, base.page * 3) if kind == "schema" else pick(len(base.content))


def _change_child(base: Base, data: bytearray, generator: random.Random) -> str:
    start = _pick(base, generator, 0)
    index = generator.randrange(max(1, base.number(start + 3, 2)))
    cell = start + base.number(start + 12 + 2 * index, 2)
    last = len(data) // base.page
    pages = [_pick(base, generator, level) // base.page + 1 for level in (0, 1)]
    wild = [0, 1, 2, last, last + 1, 0xFFFFFFFF, 0x7FFFFFFF, generator.randrange(1, last + 1)]
    value = generator.choice([*wild, *pages])
    data[cell : cell + 4] = struct.pack(">I", value)
    return f"child {index} of page {start // base.page + 1}: {value}"


def run(
    seed: int,
    count: int,
    bases: Sequence[Base],
    keep: Path | None = None,
    first: int = 0,
    kinds: Sequence[str] = KINDS,
) -> Tally:
    """Outcomes by label. Each mutation is a function of seed, its number and the bases alone."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.sqlite"
        for number in range(first, first + count):
            generator = random.Random(f"{seed} {number}")
            content, kind, notes = mutate(generator.choice(bases), generator, kinds)
            path.write_bytes(content)
            some = generator.sample(ANALYSED, ANALYSES_EACH)
            page = generator.random() < PAGE_SHARE
            outcome = check_in_child(partial(check, path, some, page))
            tally.add(outcome)
            if outcome.is_defect:
                words = [seed, number, kind, notes, outcome.label, outcome.note]
                print(json.dumps(words), flush=True)
                if keep:
                    (keep / f"{seed}.{number}.sqlite").write_bytes(content)
    return tally


def load_bases(packed: Sequence[Path] = ()) -> list[Base]:
    """The reports to change. One is checked first, so that each child has the modules loaded."""
    bases = [Base.of(recorded(path)) for path in packed or [DATA / name for name in SMALL]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.sqlite"
        path.write_bytes(bases[0].content)
        check(path)
    gc.freeze()
    return bases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--report", type=Path, nargs="*", help="each a .sqlite.gz to change")
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--keep", type=Path, help="directory for the inputs of defects")
    chosen = parser.parse_args()
    started = time.monotonic()
    bases = load_bases(chosen.report or ())
    tally = run(chosen.seed, chosen.count, bases, chosen.keep, chosen.first, chosen.kind)
    seconds = round(time.monotonic() - started)
    print(f"seed {chosen.seed}: {chosen.count} mutations in {seconds} s: {tally}")


if __name__ == "__main__":
    main()
