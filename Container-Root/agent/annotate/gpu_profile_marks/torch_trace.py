"""Record a process with its own torch.profiler, where there is no nsys. Python 3.8, stdlib only.

The marks are annotations of the trace then: a step is `ProfilerStep#12`, as torch.profiler itself
names it, and any other range has our domain before its name.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.nvtx import Attributes
from gpu_profile_marks.ranges import SWITCH
from gpu_profile_marks.variables import TRACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    Texts = dict[int, tuple[Attributes, str]]
    """What is kept of each message, by the address that stands for it."""

_PREFIX = "gpu-profile:"
_STEP = "step"
_RANK = re.compile(r"rank\d+\.")


def _make_config(torch: Any) -> dict[str, Any]:  # noqa: ANN401 - torch
    """Return the argument that has waits between streams recorded, where this torch has it.

    Without them nobody can replay a program of several streams. torch has it since 2.1:
    https://github.com/pytorch/pytorch/pull/105187
    """
    try:
        config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):
        return {}
    return {"experimental_config": config}


class TorchTrace:
    """The trace of this process, from `start` to `stop`, in a file named by its rank."""

    def __init__(self, torch: Any, path: str) -> None:  # noqa: ANN401 - torch
        self._torch = torch
        self._path = Path(path)
        self._profiler: Any = None
        self._thread = 0
        self.is_over = False

    @property
    def is_running(self) -> bool:
        return self._profiler is not None and not self.is_over

    @property
    def has_begun(self) -> bool:
        return self._profiler is not None

    def renew(self) -> None:
        """Forget the trace that was written: another one may begin."""
        self._profiler = None
        self.is_over = False

    def start(self) -> None:
        """Begin the recording, once. Raises RuntimeError for a torch without Kineto."""
        if self._profiler is not None or not SWITCH.on:
            return
        torch = self._torch
        if not torch.autograd.kineto_available():
            raise RuntimeError("this torch is built without Kineto, so torch.profiler has no trace")
        activity = torch.profiler.ProfilerActivity
        activities = [activity.CPU]
        if torch.cuda.is_initialized() or torch.cuda.is_available():
            activities.append(activity.CUDA)
        waits = _make_config(torch)
        self._profiler = torch.profiler.profile(activities=activities, **waits)
        self._thread = threading.get_ident()
        self._profiler.start()

    def stop(self) -> None:
        """End the recording and write it. Only the thread that began it can."""
        if not self.is_running or threading.get_ident() != self._thread:
            return
        self.is_over = True
        if self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()
        rank, world = self._find_rank()
        if world is not None:
            facts = json.dumps({"rank": rank, "world_size": world})
            self._profiler.add_metadata_json("distributedInfo", facts)
        self._profiler.stop()
        self._write(self._path.with_name(_RANK.sub(f"rank{rank}.", self._path.name, count=1)))

    def _find_rank(self) -> tuple[int, int | None]:
        """Return the rank and the number of ranks; those that torchrun starts share our file."""
        ours = int(self._path.name[len("rank") :].partition(".")[0])
        distributed = self._torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        return ours, None

    def _write(self, path: Path) -> None:
        """Write the file by rename. Of two processes of one rank the longer trace stays."""
        draft = path.with_name(f".{path.name}.{os.getpid()}.json")
        try:
            self._profiler.export_chrome_trace(str(draft))
            draft.chmod(0o600)
            if not path.exists() or path.stat().st_size < draft.stat().st_size:
                draft.replace(path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def yield_to_program(self) -> None:
        """End the recording before the program starts torch.profiler itself: only one can run."""
        of_profiler = self._torch.autograd.profiler.profile
        prepare = of_profiler._prepare_trace

        def prepare_trace(profiler: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch
            if SWITCH.on and self.is_running and self._profiler.profiler is not profiler:
                SWITCH.guard(self._yield)
            return prepare(profiler, *args, **kwargs)

        of_profiler._prepare_trace = prepare_trace

    def _yield(self) -> None:
        what = "the program starts torch.profiler itself: the trace ends here"
        sys.stderr.write(f"gpu-profile: {what}\n")
        self.stop()


class Annotations(threading.local):
    """Stands for the NVTX domain of nvtx.py: its ranges are annotations of the trace."""

    def __init__(self, torch: Any, trace: TorchTrace, texts: Texts) -> None:  # noqa: ANN401 - torch
        self._enter = torch.ops.profiler._record_function_enter_new
        self._exit = torch.ops.profiler._record_function_exit._RecordFunction
        self._trace = trace
        self._texts = texts
        self._open: list[Any] = []

    def make(self, message: str) -> Attributes:
        attributes = Attributes()
        self._texts[ctypes.addressof(attributes)] = attributes, message
        return attributes

    def push(self, address: int) -> None:
        if not self._trace.is_running:
            self._open.append(None)
            return
        attributes, message = self._texts[address]
        name = f"ProfilerStep#{attributes.payload}" if message == _STEP else f"{_PREFIX}{message}"
        self._open.append(self._enter(name, None))

    def pop(self) -> None:
        entered = self._open.pop() if self._open else None
        if entered is not None:
            self._exit(entered)

    def mark(self, address: int) -> None:
        """Do nothing: torch.profiler has ranges only."""


def open_trace(torch: Any, environ: Mapping[str, str]) -> TorchTrace | None:  # noqa: ANN401 - torch
    """Return the trace of this process if one is asked for."""
    path = environ.get(TRACE, "")
    return TorchTrace(torch, path) if path else None
