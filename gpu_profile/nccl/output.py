"""Parse what nccl-tests prints, and its JSON (2.17.3 and newer).

The forms are those of nccl-tests' src/util.cu: writeResultHeader, writeBenchmarkLineBody and
jsonOutputInit. Sizes are in bytes, times in us, bandwidths in GB/s of 1e9 bytes.
"""

import re
from collections.abc import Iterator

from gpu_profile.errors import ReportError
from gpu_profile.nccl.measurement import Measurement, Row, Speed

_PREFIX = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:|\s*\d+: )")
"""The text before each line with `mpirun --tag-output` and `srun -l`."""
_START = re.compile(r"# (?:nccl-tests version|Collective test starting:|nThread) ")
_DEVICE = re.compile(r"#\s+Rank\s+\d+\s.*\sdevice\s+\d+\s+\[[^\]]*\]\s+(?P<name>.*\S)")
_ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+([a-z]\w*)\s+([a-z]\w*)\s+(-?\d+)\s+(\S.*)")


def parse_output(text: str, collective: str = "") -> tuple[Measurement, ...]:
    """Return the measurements in a job's output. Lines of other programs are ignored.

    `collective` names those of versions that did not print it (before 2.17.1). Raises ReportError
    for an incomplete row, or without a table.
    """
    lines = [_PREFIX.sub("", line) for line in text.splitlines()]
    measurements = tuple(_parse_measurement(part, collective) for part in _split_parts(lines))
    measured = tuple(m for m in measurements if m.rows)
    if not measured:
        last_line = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        raise ReportError(f"No table of nccl-tests in the job's output; its last line: {last_line}")
    return measured


def _split_parts(lines: list[str]) -> Iterator[list[str]]:
    """Return the lines of each run. A run starts with the first header line after a row."""
    part: list[str] = []
    has_rows = False
    for line in lines:
        if has_rows and _START.match(line):
            yield part
            part, has_rows = [], False
        part.append(line)
        has_rows = has_rows or _ROW.match(line) is not None
    yield part


def _parse_measurement(lines: list[str], collective: str) -> Measurement:
    text = "\n".join(lines)
    bounds = _find_text(text, r"# Out of bounds values\s*: (\d+)")
    average = _find_text(text, r"# Avg bus bandwidth\s*: (\S+)")
    return Measurement(
        collective=_find_text(text, r"# Collective test starting: (\S+)") or collective,
        version=_find_text(text, r"# nccl-tests version (\S+)"),
        devices=tuple(m["name"] for m in map(_DEVICE.match, lines) if m),
        rows=tuple(_parse_rows(lines)),
        out_of_bounds=int(bounds) if bounds else None,
        average_busbw=float(average) if average else None,
    )


def _find_text(text: str, pattern: str) -> str:
    match = re.search(f"^{pattern}", text, re.MULTILINE)
    return match[1] if match else ""


def _parse_rows(lines: list[str]) -> Iterator[Row]:
    """Return the rows.

    The header tells how wide a half is (`-I` adds four columns) and if times follow.
    """
    header = next((line for line in lines if re.match(r"#\s+size\s+count\s+type", line)), "")
    width = 8 if " i_min " in header else 4
    stamp = 2 if "timestamp" in header else 0
    for line in lines:
        if match := _ROW.match(line):
            words = match[6].split()
            yield _parse_row(match, words[: len(words) - stamp], width)


def _parse_row(match: re.Match[str], words: list[str], width: int) -> Row:
    try:
        halves = [_parse_speed(words[at : at + width]) for at in range(0, len(words), width)]
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


def _parse_speed(words: list[str]) -> Speed:
    time_us, algbw, busbw = (float(word) for word in words[:3])
    wrong = None if words[3] == "N/A" else int(float(words[3]))
    return Speed(time_us=time_us, algbw=algbw, busbw=busbw, wrong=wrong)
