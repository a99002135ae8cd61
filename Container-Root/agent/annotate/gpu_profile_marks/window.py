"""Record some steps only: start and stop nsys' recording where steps begin.

Python 3.8, stdlib only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_profile_marks.ending import Ending, call_at_end
from gpu_profile_marks.ranges import Ranges, make_mark
from gpu_profile_marks.times_file import TimesFile
from gpu_profile_marks.variables import END, FILE, START, STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_profile_marks.steps import Steps
    from gpu_profile_marks.torch_trace import TorchTrace


class Window:
    """The steps `first` to `end - 1`, of which `recorded` are in the report."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401 - torch
        first: int,
        end: int,
        file: str,
        *,
        cuda: bool = False,
        trace: TorchTrace | None = None,
    ) -> None:
        self.first, self.end = first, end
        self.recorded: tuple[int, int] | None = None
        self._open = False
        self._file = TimesFile(file, (first, end))
        self._torch = torch
        self._cuda = cuda
        self._trace = trace
        # Around steps, and so not among the ranges that lie inside one.
        self._domain: Any = Ranges.domain
        self._capture = make_mark("capture")

    def turn(self, number: int, _steps: Steps) -> bool:
        """Start or stop the recording where step `number` begins. Returns whether it did."""
        if self._open and number >= self.end:
            self.stop(number)
            return True
        if not self._open and self.recorded is None and self.first <= number < self.end:
            self._start(number)
            return True
        return False

    def _start(self, number: int) -> None:
        self._open = True
        self.recorded = (number, self.end)
        # What earlier steps launched ends before the recording begins, and belongs to no report.
        if self._uses_cuda():
            self._torch.cuda.synchronize()
        if self._trace is not None:
            self._trace.start()
        elif self._cuda:
            self._torch.cuda.cudart().cudaProfilerStart()
        elif self._domain is not None:
            self._domain.push(self._capture.address)

    def stop(self, number: int) -> None:
        """End the recording where step `number` begins, or the program ends."""
        if not self._open or self.recorded is None:
            return
        self._open = False
        self.recorded = (self.recorded[0], number)
        if self._uses_cuda():
            self._torch.cuda.synchronize()
        if self._trace is not None:
            self._trace.stop()
        elif self._cuda:
            self._torch.cuda.cudart().cudaProfilerStop()
        elif self._domain is not None:
            self._domain.pop()
        call_at_end()

    def _uses_cuda(self) -> bool:
        return bool(self._torch.cuda.is_initialized())

    def save(self, steps: Steps, *, now: bool = False) -> None:
        """Write the steps' times now and then, and with `now` at once."""
        # The recording ends in the first step after the window.
        control = None if self._open or self.recorded is None else self.recorded[1] + 1
        self._file.save(steps, self.recorded, control, now=now)


def make_window(
    torch: Any,  # noqa: ANN401 - torch
    environ: Mapping[str, str],
    trace: TorchTrace | None = None,
) -> Window | Ending | None:
    """Return what ends the recording: the window of --steps, or the default end.

    Without either, an Ending that never comes writes the times of the steps. None without a file.
    """
    first, colon, end = environ.get(STEPS, "").partition(":")
    file = environ.get(FILE, "")
    if colon:
        cuda = environ.get(START, "nvtx") == "cuda"
        return Window(torch, int(first), int(end), file, cuda=cuda, trace=trace)
    return Ending(torch, file, environ.get(END, ""), trace) if file else None
