"""A real report with some bytes changed: what we read, against what Python's sqlite3 reads.

    .venv/bin/python -m tests.fuzz.pages --seed 1 --count 20000

Each mutation must give sqlite3's numbers, or one refusal; never a traceback, a hang, or growth.
"""

import argparse
import collections
import gzip
import json
import random
import sqlite3
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gpu_profile.analysis.multi_report.work import ReportSource, Work
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.errors import GpuProfileError
from tests.fuzz.child import Outcome, check_in_child

RECORDED = Path(__file__).parents[1] / "data" / "h200x4-ddp" / "rank0.sqlite.gz"
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *("start", "end", "deviceId", "streamId", "shortName", "demangledName"),
        *("correlationId", "gridX"),
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", "end", "bytes", "copyKind", "deviceId"),
    "NVTX_EVENTS": ("start", "end", "eventType", "globalTid"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start", "end", "streamId"),
    "OSRT_API": ("start", "end", "nameId", "globalTid"),
}
STATS = (
    *("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum", "cuda_gpu_mem_time_sum"),
    *("nvtx_gpu_proj_sum", "temporal_breakdown", "comm_sum", "step_sum"),
)
KINDS = (
    *("leafhead", "leafptr", "cellhead", "interior", "interiorptr", "anywhere", "dbheader"),
    *("varint", "child", "type", "schema", "truncate"),
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


def mutate(base: Base, generator: random.Random) -> tuple[bytes, str, list[str]]:
    """The changed report, the kind of change, and what was changed where."""
    data, notes = bytearray(base.content), list[str]()
    kind = generator.choice(KINDS)
    if kind == "truncate":
        length = generator.randrange(len(data))
        return bytes(data[:length]), kind, [f"truncated to {length}"]
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


def expected(path: Path, table: str) -> list[tuple[object, ...]] | str:
    """What sqlite3 reads, or its error."""
    names = ", ".join(f'"{name}"' for name in COLUMNS[table])
    uri = f"file:{path}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = bytes
            return database.execute(f"SELECT {names} FROM {table} ORDER BY rowid").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: its text quotes bytes
        return f"sqlite3: {error}"


def compare_table(path: Path, database: Database, table: str) -> Outcome:
    """One table: ours against sqlite3's."""
    try:
        if not database.has(table):
            missing = isinstance(expected(path, table), str)
            return Outcome("absent" if missing else "ABSENT though sqlite3 reads it", table)
        ours = database.load(table, *COLUMNS[table], sort=False)
    except GpuProfileError as error:
        return Outcome("refused", str(error))
    theirs = expected(path, table)
    if isinstance(theirs, str):
        return Outcome("ACCEPTED what sqlite3 calls malformed", f"{table}: {theirs}")
    return same_numbers(ours, COLUMNS[table], theirs)


def same_numbers(
    ours: dict[str, "np.ndarray"], names: Sequence[str], rows: Sequence[Sequence[object]]
) -> Outcome:
    """Whether columns hold what sqlite3's rows do; NULL is MISSING."""
    for index, name in enumerate(names):
        cells = [row[index] for row in rows]
        if any(isinstance(cell, str | bytes) for cell in cells):
            return Outcome("TEXT accepted as numbers", name)
        numbers = [MISSING if cell is None else cell for cell in cells]
        if ours[name].tolist() != numbers:
            return Outcome("WRONG numbers", f"{name}: {len(ours[name])} of {len(numbers)} rows")
    return Outcome("same")


def check(path: Path) -> Outcome:
    """The worst that any table, or `stats`, makes of the report."""
    outcomes = [*_tables(path), _stats(path)]
    worst = [one for one in outcomes if one.is_defect]
    refused = [one for one in outcomes if one.label == "refused"]
    return (worst or refused or outcomes)[0]


def _tables(path: Path) -> Iterator[Outcome]:
    try:
        with Database.open(path) as database:
            for table in COLUMNS:
                yield compare_table(path, database, table)
    except GpuProfileError as error:
        yield (
            Outcome("refused", str(error)) if _is_one_line(error) else Outcome("LINES", str(error))
        )


def _is_one_line(error: GpuProfileError) -> bool:
    text = str(error)
    return bool(text) and text.isprintable()


def _stats(path: Path) -> Outcome:
    """The tables of a user, merged."""
    analyses = [{**ANALYSES, **OURS}[name] for name in STATS]
    answer = Work(ReportSource(str(path)), tuple(analyses)).do()
    if isinstance(answer, GpuProfileError):
        return Outcome("refused", str(answer)) if _is_one_line(answer) else Outcome("LINES")
    for one, part in zip(analyses, answer, strict=True):
        one.merge([part])
    return Outcome("same")


def run(seed: int, count: int, base: Base, keep: Path | None = None) -> collections.Counter[str]:
    """Outcomes by label. Each mutation is a function of seed and its number alone."""
    tally = collections.Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.sqlite"
        for number in range(count):
            content, kind, notes = mutate(base, random.Random(f"{seed} {number}"))
            path.write_bytes(content)
            outcome = check_in_child(partial(check, path))
            tally[outcome.label] += 1
            if outcome.is_defect:
                print(json.dumps([seed, number, kind, notes, outcome.label, outcome.note]))
                if keep:
                    (keep / f"{seed}.{number}.sqlite").write_bytes(content)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--report", type=Path, default=RECORDED, help="a .sqlite.gz to change")
    parser.add_argument("--keep", type=Path, help="directory for the inputs of defects")
    chosen = parser.parse_args()
    started = time.monotonic()
    tally = run(chosen.seed, chosen.count, Base.of(recorded(chosen.report)), chosen.keep)
    seconds = round(time.monotonic() - started)
    print(f"seed {chosen.seed}: {chosen.count} mutations in {seconds} s: {dict(tally)}")


if __name__ == "__main__":
    main()
