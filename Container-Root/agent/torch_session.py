"""Have the marks of a rank record windows with its own torch.profiler. Python 3.8, stdlib only.

Nothing of CUPTI is in the program until the first window. A trace begins and ends where a step
begins: annotate/gpu_profile_marks/ending.py follows the byte that is written here.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import window_files
from process_tree import LONGEST_S
from window_schedule import compile_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Pattern

TRACE = ".pt.trace.json"
_POLL_S = 0.05
_START_S = 60.0
"""For the step that is open to end, and for Kineto to start, which takes 1 to 3 s once."""
_NO_STEP = f"no step of it began in {_START_S:g} s, and torch.profiler is started where one begins"
_QUICK = 1
"""zlib's level: 100 MB of a trace take 1 s and become 8 MB; at level 9 they take 4 s."""


class Traces:
    """The folder in which the processes below one profile.py write their traces.

    torchrun gives them ranks of its own, which profile.py does not know: a second node's may be 8
    to 15 where its profile.py is rank 1.
    """

    def __init__(self, output: Path, name: str) -> None:
        self._folder = output / f".traces-{name}"
        self.first = self._folder / f"{name}{TRACE}"
        """The file that the marks are told; each process puts its rank in its name."""

    def find_all(self) -> list[Path]:
        return sorted(self._folder.glob(f"rank*{TRACE}"))

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Have the folder while the body runs."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self._folder.rmdir()


class TorchSession:
    """The traces of the processes below one profile.py, whose ranks torchrun may have chosen.

    `name` is that of profile.py's own rank, `rank0.host`.
    """

    ending = f"{TRACE}.gz"
    needs_idle_gpu = False

    def __init__(self, output: Path, name: str) -> None:
        self._output = output
        self._name = name
        self._traces = Traces(output, name)
        self._ranks: set[str] = set()

    def compile_reports(self, name: str) -> Pattern[str]:
        """Return what matches the reports of the ranks that were recorded."""
        return compile_reports(self._ranks, name.partition(".")[2], self.ending)

    def describe(self) -> dict[str, str]:
        """Return nothing: the marks alone end a trace."""
        return {}

    def start(self, _report: str) -> str:
        """Begin a trace with the next step; "" if it runs. Otherwise it returns why not."""
        for left in self._traces.find_all():
            left.unlink()
        self._tell_marks(window_files.TRACE)
        if self._await(_START_S, traces=True):
            return ""
        self._tell_marks(window_files.SLEEP)
        return _NO_STEP

    def stop(self, at_end: Callable[[], None]) -> str:
        """End the trace with the open step, and wait until it is written. Returns a failure."""
        at_end()
        return "" if self._await(LONGEST_S, traces=False) else "torch.profiler is still writing"

    def adopt(self, report: Path) -> Path | None:
        """Pack what the processes have written: `rank1.host.3.pt.trace.json.gz` of window 3.

        Returns the first; None if there is none.
        """
        ending = report.name.partition(".")[2]
        packed = []
        for trace in self._traces.find_all():
            rank = trace.name.partition(".")[0]
            self._ranks.add(rank)
            packed.append(report.with_name(f"{rank}.{ending}"))
            pack(trace, packed[-1])
        return packed[0] if packed else None

    def _tell_marks(self, what: int) -> None:
        with contextlib.suppress(OSError):
            window_files.tell_marks(self._output / window_files.FOLDER, self._name, what)

    def _await(self, within_s: float, *, traces: bool) -> bool:
        """Wait until a process of the rank traces, or until none does any more."""
        deadline = time.monotonic() + within_s
        folder, state = self._output / window_files.FOLDER, window_files.TRACES
        while bool(window_files.list_doing(folder, self._name, state)) != traces:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def pack(trace: Path, packed: Path) -> None:
    """Replace a trace by its .gz: a twelfth of its bytes."""
    draft = packed.with_name(f".{packed.name}.{os.getpid()}")
    with trace.open("rb") as source, draft.open("xb") as file:
        draft.chmod(0o600)
        # Without a name and a time in its header: the same trace gives the same bytes.
        with gzip.GzipFile("", "wb", _QUICK, file, 0) as target:
            shutil.copyfileobj(source, target, 1 << 20)
    draft.replace(packed)
    trace.unlink()
