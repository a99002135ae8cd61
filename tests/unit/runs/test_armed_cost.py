"""What `record` says of a program that pays for being armed with nsys."""

from pathlib import Path

import pytest

from gpu_profile.analysis.store.schema import KERNEL, RUNTIME
from gpu_profile.runs.reports.armed_cost import describe_armed_cost
from tests.unit.analysis.make import Rows, kernel, make_report, thread

NAMES = ("gemm", "cudaLaunchKernel_v7000", "cudaEventQuery_v3020")


def describe(directory: Path, each_us: int, kernel_us: int, name: int = 2) -> str:
    """The line on 100 calls, one each `each_us`, with a kernel each. `name`: of the calls."""
    begins = [1000 * each_us * n for n in range(100)]
    tables: dict[str, Rows] = {
        RUNTIME: [(at, at + 1000, thread(7), n, name) for n, at in enumerate(begins)],
        KERNEL: [kernel(at, at + 1000 * kernel_us, correlation=n) for n, at in enumerate(begins)],
    }
    sqlite = make_report(directory / "rank0.vm.1.sqlite", tables, NAMES)
    return describe_armed_cost(sqlite.with_suffix(".nsys-rep"), sqlite)


def test_a_host_that_launches_often_is_told_in_one_line(tmp_path: Path) -> None:
    assert describe(tmp_path, 10, 2) == (
        "rank0.vm.1.nsys-rep: a thread launches each 10 us, so that the armed nsys costs about 23%;"
        " for PyTorch, `profile --with torch` costs less"
    )


@pytest.mark.parametrize(
    ("each_us", "kernel_us", "name"),
    [(120, 2, 2), (10, 10, 2), (10, 2, 3)],
    ids=["it launches seldom", "the GPU is the limit", "it polls"],
)
def test_nothing_is_said_of_others(tmp_path: Path, each_us: int, kernel_us: int, name: int) -> None:
    assert describe(tmp_path, each_us, kernel_us, name) == ""


def test_nothing_is_said_of_a_program_without_a_gpu(tmp_path: Path) -> None:
    sqlite = make_report(tmp_path / "cpu.sqlite", {"NVTX_EVENTS": []})
    assert describe_armed_cost(sqlite.with_suffix(".nsys-rep"), sqlite) == ""
