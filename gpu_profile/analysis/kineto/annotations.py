"""The ranges of a trace: annotations, the marks of `profile --with torch`, and calls of modules.

A mark (annotate/gpu_profile_marks/torch_trace.py) begins with its domain's name, and its steps are
`ProfilerStep#12`. torch.profiler writes calls of modules with `with_stack=True`, as
`nn.Module: Block_2`: the third Block that was called. What its attribute is called nobody says.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gpu_profile.analysis.kineto.events import MODULE
from gpu_profile.analysis.store.schema import MARKS_DOMAIN, NVTX_DOMAIN, NVTX_PUSH_POP

MARKS = 2
"""The number of the marks' domain. That of user's annotations is 0, NCCL's is 1."""
_STEP = re.compile(r"ProfilerStep#(\d{1,9})")
_CALL = re.compile(rf"{MODULE}(.+)_(\d+)")
_CALLS_AT_ONCE = 20_000
_DEEPEST = 64
"""Modules inside modules that are told: the names of a crafted trace would fill the memory."""
RangeRow = tuple[object, ...]
"""start, end, eventType, domainId, textId, globalTid, endGlobalTid, text of NVTX_EVENTS."""


@dataclass
class TraceMarks:
    """Collects what marks a program in a trace: its marks, or calls of modules.

    The calls wait in a temporary table, on disk: a trace may hold millions.
    """

    database: sqlite3.Connection
    has_marks: bool = False
    thread: int = 0
    """Of any of them."""
    calls: list[tuple[int, int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database.execute("CREATE TEMP TABLE calls (thread INT, start INT, end INT, name TEXT)")

    def add_call(self, thread: int, start: int, end: int, name: str) -> None:
        self.thread = self.thread or thread
        self.calls.append((thread, start, end, name))
        if len(self.calls) >= _CALLS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self.database.executemany("INSERT INTO calls VALUES (?, ?, ?, ?)", self.calls)
        self.calls.clear()

    def split_name(self, name: str, thread: int) -> tuple[int, str]:
        """Return an annotation's domain and its text there: (2, "forward h.3") of a mark."""
        text = name.removeprefix(f"{MARKS_DOMAIN}:")
        if text == name:
            return 0, name
        self.has_marks, self.thread = True, thread
        return MARKS, text

    def list_rows(self, start: int, number_of: Callable[[str], int]) -> Iterator[RangeRow]:
        """Yield the row of the marks' domain, and the calls. Marks name modules better than calls.

        `number_of` returns the id of a text.
        """
        if self.thread:
            yield start, None, NVTX_DOMAIN, MARKS, None, self.thread, None, MARKS_DOMAIN
        if not self.has_marks:
            yield from self._list_calls(number_of)

    def _list_calls(self, number_of: Callable[[str], int]) -> Iterator[RangeRow]:
        """Yield each call as a mark: `forward Block.2.Linear.9|Linear|` inside the outermost."""
        self._flush()
        # The outer one of two calls that start together is the longer one.
        in_order = "SELECT * FROM calls ORDER BY thread, start, end DESC"
        outer: list[tuple[int, int, str]] = []
        for thread, start, end, name in self.database.execute(in_order):
            while outer and (outer[-1][0] != thread or outer[-1][1] < end):
                outer.pop()
            if len(outer) >= _DEEPEST:
                continue
            match = _CALL.fullmatch(name)
            kind = match[1] if match else name.removeprefix(MODULE)
            label = f"{match[1]}.{match[2]}" if match else kind
            path = ".".join(filter(None, (outer[-1][2], label))) if outer else ""
            outer.append((thread, end, path))
            text = number_of(f"forward {path}|{kind}|")
            yield start, end, NVTX_PUSH_POP, MARKS, text, thread, None, None

    def list_steps(self, names: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return (number of the step, id of its text) of each text that is a marked step's."""
        matches = ((_STEP.fullmatch(text), key) for text, key in names.items())
        return [(int(match[1]), key) for match, key in matches if match and self.has_marks]
