"""Random valid databases: what our store reads, against what Python's sqlite3 reads.

.venv/bin/python -m tests.fuzz.valid --seed 1 --count 10000
"""

import argparse
import json
import random
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from gpu_profile.analysis.store.database import MISSING, Columns, Database
from gpu_profile.analysis.store.schema import subtract
from gpu_profile.errors import GpuProfileError
from tests.fuzz.child import Outcome, Tally, check_in_child
from tests.fuzz.whole_report import same_numbers

ODD_CELLS = {
    "text": "abc",
    "real": 1.5,
    "blob": b"\1\2",
    "empty text": "",
    "numbers as text": "5 6",
    "large real": 1e300,
}
WIDTHS = (7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62, 63)


@dataclass
class Shape:
    """What a database has. `must_refuse`: a table that nsys never writes."""

    generator: random.Random
    columns: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    must_refuse: bool = False

    def chance(self, share: float, feature: str) -> bool:
        if self.generator.random() >= share:
            return False
        self.features.append(feature)
        return True


def make(path: Path, generator: random.Random) -> Shape:
    """Write a database; returns what it has."""
    shape = Shape(generator)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        _begin(database, shape)
        key, text = _create_table(database, shape)
        _fill(database, shape, key, text)
        _change(database, shape, key)
    return shape


def _begin(database: sqlite3.Connection, shape: Shape) -> None:
    size = shape.generator.choice([512, 1024, 4096, 4096, 4096, 8192, 65536])
    shape.features.append(f"pages of {size}")
    database.execute(f"PRAGMA page_size={size}")
    if shape.chance(0.2, "auto_vacuum"):
        database.execute("PRAGMA auto_vacuum=1")
    if shape.chance(0.2, "UTF-16"):
        database.execute("PRAGMA encoding='UTF-16le'")
    database.execute("PRAGMA journal_mode=off")
    database.execute("PRAGMA synchronous=off")
    database.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)")
    database.execute("CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT)")
    database.execute("INSERT INTO META_DATA_EXPORT VALUES('EXPORT_SCHEMA_VERSION','3.20.3')")


def _create_table(database: sqlite3.Connection, shape: Shape) -> tuple[str, bool]:
    """The key's column, and whether there is a column of text."""
    pick = shape.generator
    count = pick.choice([1, 2, 4, 6, 8, 16, 40, 100, 130])
    shape.columns = [f"c{number}" for number in range(count)]
    declared = {name: f"{name} INTEGER" for name in shape.columns}
    key, ending = "", ""
    if shape.chance(0.1, "primary key"):
        key = pick.choice(shape.columns)
    elif shape.chance(0.08, "WITHOUT ROWID"):
        key, ending, shape.must_refuse = shape.columns[0], " WITHOUT ROWID", True
    if key:
        declared[key] += " PRIMARY KEY"
    columns = list(declared.values())
    if count > 2 and shape.chance(0.1, "generated"):
        kind = pick.choice(["STORED", "VIRTUAL"])
        columns.insert(1, f"g INTEGER GENERATED ALWAYS AS (c0+1) {kind}")
        shape.must_refuse = True
    if text := shape.chance(0.3, "column of text"):
        columns.insert(pick.randrange(len(columns) + 1), "t TEXT")
    database.execute(f"CREATE TABLE T({','.join(columns)}){ending}")
    if shape.chance(0.1, "index"):
        database.execute(f"CREATE INDEX i ON T({pick.choice(shape.columns)})")
    return key, text


def _fill(database: sqlite3.Connection, shape: Shape, key: str, text: bool) -> None:
    pick = shape.generator
    styles = [pick.choice(["any", "large", "constant", "null", "small"]) for _ in shape.columns]
    odd = pick.choice([*[""] * 6, *ODD_CELLS])
    if odd:
        shape.features.append(f"cells: {odd}")
    names = [*shape.columns, "t"] if text else shape.columns
    marks = ",".join("?" * len(names))
    database.execute("BEGIN")
    for row in range(pick.choice([0, 1, 3, 50, 400, 3000])):
        cells = [_cell(style, row, pick) for style in styles]
        if odd and pick.random() < 0.02:
            cells[pick.randrange(len(cells))] = ODD_CELLS[odd]
        if key:
            cells[shape.columns.index(key)] = row * 3 - 5
        if text:
            cells.append("x" * pick.choice([0, 3, 60, 200, 5000]))
        database.execute(f"INSERT INTO T({','.join(names)}) VALUES({marks})", cells)
    database.execute("COMMIT")


def _cell(style: str, row: int, pick: random.Random) -> object:
    fixed = {"constant": 7, "null": None, "small": pick.randrange(200)}
    if style in fixed:
        return fixed[style]
    if style == "large":
        return 1795211521810751808 + row * pick.randrange(1000)
    special = pick.choice([None, 0, 1, *[2] * 7])
    value = pick.getrandbits(pick.choice(WIDTHS)) * pick.choice([1, 1, -1])
    return value if special == 2 else special


def _change(database: sqlite3.Connection, shape: Shape, key: str) -> None:
    pick = shape.generator
    rows = database.execute("SELECT count(*) FROM T").fetchone()[0]
    if rows and not key and shape.chance(0.3, "deleted rows"):
        database.execute("DELETE FROM T WHERE rowid%?=0", (pick.choice([2, 3, 7]),))
    if shape.chance(0.2, "column added later"):
        database.execute(f"ALTER TABLE T ADD COLUMN late INTEGER DEFAULT {pick.choice([5, 0])}")
        shape.columns.append("late")
    if rows and not key and shape.chance(0.1, "gap of rowids"):
        gap = 10 ** pick.choice([6, 9, 12, 18])
        database.execute("UPDATE T SET rowid=rowid+? WHERE rowid>?", (gap, rows // 2))
    if shape.chance(0.2, "vacuum"):
        database.execute("VACUUM")


def check(path: Path, shape: Shape) -> Outcome:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        names = ",".join(shape.columns)
        # NOT INDEXED: SQLite may else read an index that covers the columns, in another order.
        rows = database.execute(f"SELECT {names} FROM T NOT INDEXED").fetchall()
    count = min(len(shape.columns), shape.generator.choice([1, 2, 5]))
    chosen = shape.generator.sample(shape.columns, count)
    try:
        with Database.open(path) as report:
            ours = report.load("T", *chosen, sort=False)
            counted = report.count("T")
            other = _read_otherwise(report, chosen, ours)
    except GpuProfileError as error:
        return _judge_refusal(shape, str(error), rows, chosen)
    if shape.must_refuse:
        return Outcome("READ what nsys never writes", str(shape.features))
    places = [shape.columns.index(name) for name in chosen]
    if counted != len(rows):
        return Outcome("WRONG count", f"{counted} of {len(rows)}")
    if other:
        return Outcome(other, str(chosen))
    return same_numbers(ours, chosen, [[row[place] for place in places] for row in rows])


def _read_otherwise(report: Database, chosen: list[str], ours: Columns) -> str:
    """What differs when the columns are read in parts, filtered, or as a difference; "" if none."""
    parts = list(report.parts("T", *chosen))
    for name in chosen:
        if not np.array_equal(np.concatenate([part[name] for part in parts]), ours[name]):
            return "PARTS differ"
    first, last = chosen[0], chosen[-1]
    values = [value for value in ours[first][::7][:3].tolist() if value != MISSING]
    filtered = report.load("T", last, only={first: values}, sort=False)[last]
    if not np.array_equal(filtered, ours[last][np.isin(ours[first], values)]):
        return "FILTERED rows differ"
    difference = report.load("T", f"{last}-{first}", sort=False)[f"{last}-{first}"]
    same = np.array_equal(difference, subtract(ours[last], ours[first]))
    return "" if same else "DIFFERENCE differs"


def _judge_refusal(
    shape: Shape, error: str, rows: list[tuple[object, ...]], chosen: list[str]
) -> Outcome:
    """A sound table of whole numbers must be read."""
    places = [shape.columns.index(name) for name in chosen]
    cells = (row[place] for row in rows for place in places)
    if shape.must_refuse or not all(cell is None or isinstance(cell, int) for cell in cells):
        return Outcome("refused", error)
    return Outcome("REFUSED a sound table", error)


def run(seed: int, count: int) -> Tally:
    """Outcomes by label. Each database is a function of seed and its number alone."""
    tally = Tally()
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.sqlite"
            shape = make(path, random.Random(f"{seed} {number}"))
            outcome = check_in_child(partial(check, path, shape))
        tally.add(outcome)
        if outcome.is_defect:
            print(
                json.dumps([seed, number, shape.features, outcome.label, outcome.note]), flush=True
            )
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=1000)
    chosen = parser.parse_args()
    started = time.monotonic()
    tally = run(chosen.seed, chosen.count)
    seconds = round(time.monotonic() - started)
    print(f"seed {chosen.seed}: {chosen.count} databases in {seconds} s: {tally}")


if __name__ == "__main__":
    main()
