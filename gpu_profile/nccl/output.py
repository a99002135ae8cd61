"""Read what nccl-tests prints and writes: its table, and its JSON (2.17.3 and newer).

Both forms are those of nccl-tests' src/util.cu: writeResultHeader, writeBenchmarkLineBody and
jsonOutputInit. Sizes are in bytes, times in us, bandwidths in GB/s of 1e9 bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_profile.analysis.table import Cell, Column, Table
from gpu_profile.errors import ReportError, SettingsError

_PREFIX = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:|\s*\d+: )")
"""What `mpirun --tag-output` and `srun -l` put before each line."""
_START = re.compile(r"# (?:nccl-tests version|Collective test starting:|nThread) ")
_DEVICE = re.compile(r"#\s+Rank\s+\d+\s.*\sdevice\s+\d+\s+\[[^\]]*\]\s+(?P<name>.*\S)")
_ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+([a-z]\w*)\s+([a-z]\w*)\s+(-?\d+)\s+(\S.*)")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HARMLESS = ("NCCL_", "FI_", "CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=")


@dataclass(frozen=True, kw_only=True)
class Speed:
    """`wrong` is None where nothing was checked: `-c 0`, or a collective that cannot be."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True, kw_only=True)
class Row:
    size: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Speed | None
    in_place: Speed | None

    @property
    def busbw(self) -> float:
        """The out-of-place bandwidth, which is the one that people publish, where there is one."""
        return next((half.busbw for half in (self.out_of_place, self.in_place) if half), 0.0)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One run of one collective. `devices` has one GPU's name a rank."""

    collective: str
    version: str
    devices: tuple[str, ...]
    rows: tuple[Row, ...]
    out_of_bounds: int | None
    average_busbw: float | None


def parse_size(text: str) -> int:
    """Bytes as nccl-tests reads them: 8, 64K, 1G; powers of 1024."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise SettingsError(f"{text!r} is not a size", "Use bytes or 64K, 32M, 1G")
    return int(match[1]) * _UNITS[match[2].upper()]


def size_text(size: int) -> str:
    """The shortest exact form: 1G, 1536M, 10."""
    for unit, factor in reversed(_UNITS.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def parse_output(text: str, collective: str = "") -> tuple[Measurement, ...]:
    """The measurements in a job's output, other programs' lines between them left out.

    `collective` names those of versions that did not print it (before 2.17.1).
    Raises ReportError where a row is torn, or where there is no table at all.
    """
    lines = [_PREFIX.sub("", line) for line in text.splitlines()]
    found = tuple(_measurement(part, collective) for part in _parts(lines))
    measured = tuple(m for m in found if m.rows)
    if not measured:
        said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        raise ReportError(f"No table of nccl-tests in the job's output; its last line: {said}")
    return measured


def _parts(lines: list[str]) -> Iterator[list[str]]:
    """One list of lines a run: a run starts with the first header line after a row."""
    part: list[str] = []
    has_rows = False
    for line in lines:
        if has_rows and _START.match(line):
            yield part
            part, has_rows = [], False
        part.append(line)
        has_rows = has_rows or _ROW.match(line) is not None
    yield part


def _measurement(lines: list[str], collective: str) -> Measurement:
    text = "\n".join(lines)
    bounds = _said(text, r"# Out of bounds values\s*: (\d+)")
    average = _said(text, r"# Avg bus bandwidth\s*: (\S+)")
    return Measurement(
        collective=_said(text, r"# Collective test starting: (\S+)") or collective,
        version=_said(text, r"# nccl-tests version (\S+)"),
        devices=tuple(m["name"] for m in map(_DEVICE.match, lines) if m),
        rows=tuple(_rows(lines)),
        out_of_bounds=int(bounds) if bounds else None,
        average_busbw=float(average) if average else None,
    )


def _said(text: str, pattern: str) -> str:
    match = re.search(f"^{pattern}", text, re.MULTILINE)
    return match[1] if match else ""


def _rows(lines: list[str]) -> Iterator[Row]:
    """The header says how wide a half is (`-I` adds four columns) and if a time stamp follows."""
    header = next((line for line in lines if re.match(r"#\s+size\s+count\s+type", line)), "")
    width = 8 if " i_min " in header else 4
    stamp = 2 if "timestamp" in header else 0
    for line in lines:
        if match := _ROW.match(line):
            words = match[6].split()
            yield _row(match, words[: len(words) - stamp], width)


def _row(match: re.Match[str], words: list[str], width: int) -> Row:
    try:
        halves = [_speed(words[at : at + width]) for at in range(0, len(words), width)]
        out_of_place, in_place = halves if len(halves) == 2 else (None, *halves)
    except (ValueError, IndexError) as error:
        hint = "Another process wrote into it: use NCCL_DEBUG_FILE, or --min-busbw with JSON"
        raise ReportError(f"The row of {match[1]} bytes is torn: {match[0]!r}", hint) from error
    return Row(
        size=int(match[1]),
        count=int(match[2]),
        type=match[3],
        redop=match[4],
        root=int(match[5]),
        out_of_place=out_of_place,
        in_place=in_place,
    )


def _speed(words: list[str]) -> Speed:
    time_us, algbw, busbw = (float(word) for word in words[:3])
    wrong = None if words[3] == "N/A" else int(float(words[3]))
    return Speed(time_us=time_us, algbw=algbw, busbw=busbw, wrong=wrong)


def parse_json(text: str) -> Measurement:
    """What `-J FILE` wrote (file version 3). Raises ReportError where it is cut or another."""
    document = _document(text)
    try:
        return _from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        what = "The JSON of nccl-tests is not in a form known here"
        raise ReportError(f"{what}: {error!r}", "The table in the job's log is read too") from error


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(re.sub(r":(-?)inf\b", r":\1Infinity", text))
    except ValueError as error:
        hint = "nccl-tests ends it as its last act: its log says why the job ended early"
        raise ReportError(f"The JSON of nccl-tests is cut: {error}", hint) from error
    if not isinstance(document, dict):
        raise ReportError("The JSON of nccl-tests is not an object", "Give it a file of its own")
    return document


def _from_document(document: Mapping[str, Any]) -> Measurement:
    return Measurement(
        collective=str(document["args"][0]).rsplit("/", 1)[-1],
        version=f"JSON {document['version']}",
        devices=_devices_of(document["config"]),
        rows=tuple(_row_of(result) for result in document["results"]),
        out_of_bounds=int(document["out_of_bounds"]["count"]),
        average_busbw=float(document["average_bus_bandwidth"]["bandwidth"]),
    )


def _devices_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """One a rank; the file lists only the first GPU of each process."""
    each = int(config.get("nthreads", 1)) * int(config.get("ngpus", 1))
    return tuple(str(d["device_info"]) for d in config["devices"] for _ in range(each))


def _row_of(result: Mapping[str, Any]) -> Row:
    return Row(
        size=int(result["size"]),
        count=int(result["count"]),
        type=str(result["type"]),
        redop=str(result["redop"]),
        root=int(result["root"]),
        out_of_place=_speed_of(result.get("out_of_place")),
        in_place=_speed_of(result.get("in_place")),
    )


def _speed_of(half: Mapping[str, Any] | None) -> Speed | None:
    if half is None:
        return None
    time_us = half["cpu_time"] if "cpu_time" in half else half["time"]
    wrong = half["nwrong"]
    return Speed(
        time_us=float(time_us),
        algbw=float(half["alg_bw"]),
        busbw=float(half["bus_bw"]),
        wrong=None if wrong is None else int(wrong),
    )


def redact_json(text: str) -> str:
    """The same document without its environment's values: `-J` writes all of them, keys included.

    What cannot be read is dropped whole: a cut file may hold a secret anywhere.
    """
    try:
        document = _document(text)
    except ReportError:
        return '{"redacted": "this file was cut"}\n'
    if "env" in document:
        document["env"] = [entry for entry in document["env"] if str(entry).startswith(_HARMLESS)]
    return json.dumps(document) + "\n"


def table(measurement: Measurement) -> Table:
    """nccl-tests' own columns; a half that was not measured is empty."""
    half = (Column("time", "us"), Column("algbw", "GB/s"), Column("busbw", "GB/s"))
    first = (Column("size", "B"), Column("count"), Column("type"), Column("redop"))
    columns = (*first, *half, Column("#wrong"), *half, Column("#wrong"))
    return Table(measurement.collective, columns, tuple(map(_cells, measurement.rows)))


def _cells(row: Row) -> tuple[Cell, ...]:
    cells: list[Cell] = [row.size, row.count, row.type, row.redop]
    for half in (row.out_of_place, row.in_place):
        cells += [half.time_us, half.algbw, half.busbw, half.wrong] if half else [None] * 4
    return tuple(cells)
