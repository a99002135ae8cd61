"""What `record` says of a window that ended before its kernels were collected."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_profile.analysis.store.schema import KERNEL, RUNTIME
from gpu_profile.errors import ReportError
from gpu_profile.runs.reports.lost_launches import count_launches, describe_lost_kernels
from tests.unit.analysis.make import Rows, kernel, make_report, thread

NAMES = ("gemm", "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000", "cudaMalloc_v3020")


def write(directory: Path, kernels: Sequence[int], *more: int) -> Path:
    """A report of 100 launches and a cudaMalloc, with kernels of these; `more`: names of calls."""
    calls = [(n, n + 1, thread(7), n, 2) for n in range(100)]
    calls += [(200, 201, thread(7), 200, 4), *((300, 301, thread(7), 300, name) for name in more)]
    tables: dict[str, Rows] = {
        RUNTIME: calls,
        KERNEL: [kernel(n, n + 1, correlation=n) for n in kernels],
    }
    return make_report(directory / "rank0.vm.1.sqlite", tables, NAMES)


def describe(sqlite: Path, cuda: int) -> str:
    return describe_lost_kernels(sqlite.with_suffix(".nsys-rep"), sqlite, {"cuda": cuda})


def test_a_window_whose_end_was_queued_is_told_in_one_line(tmp_path: Path) -> None:
    line = describe(write(tmp_path, range(60)), 60)
    assert line.startswith("rank0.vm.1.nsys-rep lacks the kernels of 40 of 100 launches, which")
    assert "Use --seconds 5" in line
    assert "\n" not in line


def test_a_window_without_any_kernel_is_no_window(tmp_path: Path) -> None:
    """Not: the job never started CUDA."""
    with pytest.raises(ReportError, match="lacks the kernels of 100 of 100 launches"):
        describe(write(tmp_path, ()), 0)


def test_whole_windows_and_those_of_graphs_are_not_told_of(tmp_path: Path) -> None:
    assert describe(write(tmp_path, range(99)), 99) == ""
    (tmp_path / "graphs").mkdir()
    assert count_launches(write(tmp_path / "graphs", range(60), 3)) == (0, 0)
    empty = make_report(tmp_path / "cpu.sqlite", {"NVTX_EVENTS": []})
    assert describe(empty, 0) == ""
