"""Stream the events of a trace of torch.profiler: Kineto's JSON, of the Chrome trace format.

A trace of 600 MB has two million events, so it is never in memory as a whole. Kineto's own layout
begins each event on a line of its own; other writers, such as json.dump, may use one line for all.
Source of the layout: github.com/pytorch/kineto, libkineto/src/output_json.cpp.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from gpu_profile.errors import ReportError

BLOCK_BYTES = 1 << 22
MOST_EVENT_BYTES = 1 << 24
"""The most bytes of one event: an event with a call stack has some kB."""
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_KINETO = re.compile(rb"\n  \},\n  \{")
"""Between two events in Kineto's layout. JSON escapes line feeds, so none is inside a text."""
_END = re.compile(rb"\n  \}\s*(?=\])")
_CATEGORY = re.compile(rb'"cat"\s*:\s*"([a-zA-Z_]+)"')
WANTED = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "runtime": "call",
    "cuda_sync": "sync",
    "user_annotation": "range",
    "python_function": "module",
}
"""The categories that are read, in small letters; PyTorch before 1.12 wrote "Kernel", "Runtime"."""
MODULE = "nn.Module: "
"""The beginning of a Python function's name that is a call of a module: of a hundred, one is."""
_OF_MODULE = re.compile(rb'"name"\s*:\s*"nn\.Module: ')
_FUNCTION = b"python_function"
AGAIN = "Export it again: torch.profiler's export_chrome_trace or tensorboard_trace_handler"


class Arguments(msgspec.Struct):
    """The arguments of an event that are read; -1 for none."""

    correlation: int = -1
    device: int = -1
    context: int = 0
    stream: int = -1
    bytes: int = 0
    registers: int = msgspec.field(default=0, name="registers per thread")
    shared_memory: int = msgspec.field(default=0, name="shared memory")
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    collective: str = msgspec.field(default="", name="Collective name")
    sent_elements: int = msgspec.field(default=0, name="In msg nelems")
    received_elements: int = msgspec.field(default=0, name="Out msg nelems")
    dtype: str = ""
    group: str = msgspec.field(default="", name="Process Group Name")
    group_ranks: str = msgspec.field(default="", name="Process Group Ranks")
    waits_for: int = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    waits_for_stream: int = msgspec.field(default=-1, name="wait_on_stream")


class Event(msgspec.Struct):
    """An event of the trace. `ts` and `dur` are JSON numbers in us, as text: absolute times have
    more digits than a float.
    """

    name: str
    ts: msgspec.Raw
    pid: int | str = 0
    tid: int | str = 0
    dur: msgspec.Raw = msgspec.Raw(b"0")
    cat: str = ""
    ph: str = ""
    args: Arguments = msgspec.field(default_factory=Arguments)

    @property
    def kind(self) -> str:
        """kernel, copy, memset, call, sync, range or module; "" for any other event."""
        return WANTED.get(self.cat.lower(), "") if self.ph == "X" else ""


def read_events(file: IO[bytes], path: Path, frame: bytearray) -> Iterator[Event]:
    """Yield the wanted events, and append what stands before and after them to `frame`.

    Raises ReportError where the file is no trace, or ends within its events.
    """
    decode = msgspec.json.Decoder(Event).decode
    try:
        for text in _split_events(file, path, frame):
            # The category stands first in Kineto's events; most are left out here without being
            # parsed.
            category = _CATEGORY.search(text, 0, 200)
            if category and category[1].decode().lower() not in WANTED:
                continue
            if category and category[1] == _FUNCTION and not _OF_MODULE.search(text, 0, 400):
                continue
            if category or b'"cat"' in text:
                event = decode(text)
                if event.kind and (event.kind != "module" or event.name.startswith(MODULE)):
                    yield event
    except msgspec.MsgspecError as error:
        raise ReportError(f"{path} is damaged: an event cannot be read: {error}", AGAIN) from error


def _split_events(file: IO[bytes], path: Path, frame: bytearray) -> Iterator[bytes]:
    buffer = _read_head(file, path, frame)
    if re.match(rb"\s*\]", buffer):
        frame += buffer + file.read(BLOCK_BYTES)
        return
    is_kineto = buffer.startswith(b"\n  {\n") and _KINETO.search(buffer) is not None
    yield from (_split_lines if is_kineto else _split_values)(buffer, file, path, frame)


def _read_head(file: IO[bytes], path: Path, frame: bytearray) -> bytes:
    """Return what follows `"traceEvents": [`; what stands before it goes into `frame`."""
    buffer = b""
    while chunk := file.read(BLOCK_BYTES):
        buffer += chunk
        if begin := _BEGIN.search(buffer):
            frame += buffer[: begin.end()]
            return buffer[begin.end() :]
        if len(buffer) > MOST_EVENT_BYTES:
            break
    raise ReportError(f"{path} is not a trace of torch.profiler: it has no traceEvents", AGAIN)


def _split_lines(buffer: bytes, file: IO[bytes], path: Path, frame: bytearray) -> Iterator[bytes]:
    """Yield the events of Kineto's layout; after the last one is `]`."""
    buffer = buffer[len(b"\n  {") :]
    while True:
        *events, buffer = _KINETO.split(buffer)
        for event in events:
            yield b"{" + event + b"}"
        chunk = file.read(BLOCK_BYTES)
        if not chunk:
            break
        buffer += chunk
        if len(buffer) > MOST_EVENT_BYTES + BLOCK_BYTES:
            raise _refuse_cut(path)
    end = _END.search(buffer)
    if end is None:
        raise _refuse_cut(path)
    yield b"{" + buffer[: end.end()]
    frame += buffer[end.end() :]


def _split_values(buffer: bytes, file: IO[bytes], path: Path, frame: bytearray) -> Iterator[bytes]:
    """Yield the events of any layout: about eight times as slow."""
    decoder, text = json.JSONDecoder(), buffer.decode(errors="replace")
    position = 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        if text[position : position + 1] == "]":
            frame += text[position:].encode() + file.read(BLOCK_BYTES)
            return
        try:
            _, end = decoder.raw_decode(text, position)
        except ValueError as error:
            chunk = file.read(BLOCK_BYTES)
            if not chunk or len(text) - position > MOST_EVENT_BYTES:
                raise _refuse_cut(path) from error
            text, position = text[position:] + chunk.decode(errors="replace"), 0
        else:
            yield text[position:end].encode()
            position = end


def _refuse_cut(path: Path) -> ReportError:
    return ReportError(f"{path} is truncated: it ends within its events", AGAIN)


def parse_ns(number: msgspec.Raw) -> int:
    """Return the ns of a JSON number of us: 4928 of `4.928`."""
    us, _, fraction = bytes(number).partition(b".")
    # In whole numbers: ns since 1970 have 19 digits, a float 16.
    if us.isdigit() and (not fraction or fraction.isdigit()):
        return int(us) * 1000 + int(fraction[:3].ljust(3, b"0"))
    try:
        return round(float(bytes(number)) * 1000)
    except ValueError:
        raise ValueError(f"{bytes(number).decode()} is no time") from None
