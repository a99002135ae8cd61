"""Tell payloads of NVTX events that hold numbers only, as nsys' schema tables describe them.

These stay in a scrubbed report: NCCL's communicators, ranks and sizes, and the samples of Python
stacks, which hold ids of strings. Any other blob can hold any text.
"""

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpu_profile.analysis.activity.comm.nccl_payload import FIELD_FORMATS, HEADER
from gpu_profile.analysis.host.stacks import FRAME, PYTHON_SCHEMA, SAMPLE
from gpu_profile.analysis.store.schema import NVTX

_ENTRIES, _SCHEMAS, _ENUMS = (
    "NVTX_PAYLOAD_SCHEMA_ENTRIES",
    "NVTX_PAYLOAD_SCHEMAS",
    "NVTX_PAYLOAD_ENUMS",
)
_FIRST_NUMBER, _LAST_NUMBER, _SIZE_TYPE = 3, 20, 22
"""Types of numbers: NVTX_PAYLOAD_ENTRY_TYPE_SHORT to _DOUBLE, and _SIZE; 1 and 2 are char.
(NVTX, nvtxDetail/nvtxExtPayloadTypes.h)"""
_WIDEST_FIELD = 8  # bytes, with its padding
_NO_FLAGS = (None, 0)


@dataclass(frozen=True)
class NumberPayloads:
    """The schemas whose payloads hold numbers only: `sizes` are the most bytes by schema id,
    `samples` the ids of Python samples.
    """

    sizes: Mapping[int, int] = field(default_factory=dict)
    samples: frozenset[int] = frozenset()

    def strip(self, blob: bytes) -> bytes | None:
        """The blob if it holds numbers only, else None.

        The padding of a sample's frames is cleared: nsys does not write it, and parts of paths
        (`te-packages`) stood there in recordings of nsys 2025.3.
        """
        if len(blob) < HEADER.size:
            return None
        _, schema, size, begin = HEADER.unpack_from(blob)
        if begin != HEADER.size or begin + size != len(blob):
            return None
        if schema in self.samples:
            return _strip_sample(blob)
        return blob if size <= self.sizes.get(schema, -1) else None

    def list_strings(self, blob: bytes) -> Iterator[int]:
        """The ids of strings in a Python sample: functions and files."""
        stripped = self.strip(blob)
        if stripped is not None and HEADER.unpack_from(stripped)[1] in self.samples:
            for function, file, _ in FRAME.iter_unpack(stripped[HEADER.size + SAMPLE.size :]):
                yield from (function, file)


def _strip_sample(blob: bytes) -> bytes | None:
    first = HEADER.size + SAMPLE.size
    if (
        len(blob) < first
        or SAMPLE.unpack_from(blob, HEADER.size)[2] * FRAME.size != len(blob) - first
    ):
        return None
    frames = (
        struct.pack("<QQI4x", function, file, line & 0xFFFFFFFF)
        for function, file, line in FRAME.iter_unpack(blob[first:])
    )
    return blob[:first] + b"".join(frames)


def find_number_payloads(pair: sqlite3.Connection) -> NumberPayloads:
    """The schemas of the attached `source` that a table of ours decodes."""
    entries = _select_rows(pair, _ENTRIES, ("schemaId", "name", "type", "flags"))
    enums = {schema for (schema,) in _select_rows(pair, _ENUMS, ("schemaId",))}
    fields: dict[int, list[bool]] = {}
    names: dict[int, set[object]] = {}
    for schema, name, kind, flags in entries:
        if isinstance(schema, int):
            names.setdefault(schema, set()).add(name)
            is_number = _is_number(name, kind, enums) and flags in _NO_FLAGS
            fields.setdefault(schema, []).append(is_number)
    sizes = {
        schema: len(numbers) * _WIDEST_FIELD
        for schema, numbers in fields.items()
        if all(numbers) and names[schema] & set(FIELD_FORMATS)
    }
    schemas = _select_rows(pair, _SCHEMAS, ("schemaId", "name"))
    samples = {schema for schema, name in schemas if name == PYTHON_SCHEMA}
    others = {schema for schema, name in schemas if name != PYTHON_SCHEMA}
    return NumberPayloads(sizes, frozenset(s for s in samples - others if isinstance(s, int)))


def _is_number(name: object, kind: object, enums: Iterable[object]) -> bool:
    """Whether a field is a number; an older nsys that writes no types is known by its names."""
    if kind is None:
        return name in FIELD_FORMATS
    is_plain = isinstance(kind, int) and _FIRST_NUMBER <= kind <= _LAST_NUMBER
    return is_plain or kind == _SIZE_TYPE or kind in enums


def keep_payload_strings(pair: sqlite3.Connection, payloads: NumberPayloads) -> None:
    """Add the strings that samples of Python stacks name to temp.kept."""
    if payloads.samples:
        query = f"SELECT DISTINCT binaryData FROM source.{NVTX} WHERE typeof(binaryData) = 'blob'"
        blobs = (blob for (blob,) in pair.execute(query))
        ids = {number for blob in blobs for number in payloads.list_strings(blob)}
        rows = [(number,) for number in sorted(ids) if number < 1 << 63]
        pair.executemany("INSERT OR IGNORE INTO temp.kept VALUES (?)", rows)


def _select_rows(
    pair: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> list[tuple[object, ...]]:
    """The columns of a table; NULL for a column and no row for a table that the report lacks."""
    stored = {row[1] for row in pair.execute(f'PRAGMA source.table_info("{table}")')}
    if columns[0] not in stored:
        return []
    cells = ", ".join(f'"{name}"' if name in stored else "NULL" for name in columns)
    return pair.execute(f'SELECT {cells} FROM source."{table}"').fetchall()
