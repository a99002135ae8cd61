"""Traces of torch.profiler on an H100, beside what nsys recorded of the same program."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.invoked import invoke, reporting_here

TRACES = Path(__file__).parents[2] / "data" / "h100-torch"
KERNELS, NSYS_NS = 508, 334_546_257
"""Of steps 4 to 7, under nsys 2025.3.1."""


def read_rows(folder: str, table: str, place: Path) -> list[dict[str, Any]]:
    shutil.copytree(TRACES / folder, place / folder)
    words = ("stats", f"--report={place / folder}", f"--table={table}", "--format=json")
    done = invoke(*words, directory=reporting_here(place))
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)[table]
    return rows


def test_both_tools_count_the_same_kernels(tmp_path: Path) -> None:
    rows = read_rows("plain", "cuda_gpu_kern_sum", tmp_path)
    assert sum(row["Instances"] for row in rows) == KERNELS
    assert sum(row["Total Time (ns)"] for row in rows) == pytest.approx(NSYS_NS, rel=0.02)


def test_stacks_tell_the_modules_of_forward_passes(tmp_path: Path) -> None:
    """A layer has two Linear in its attention and two in its Sequential; three steps are steady."""
    rows = read_rows("stacks", "module_sum", tmp_path)
    linears = [row for row in rows if row["Class"] == "Linear"]
    assert len(linears) == 3 * 4 + 1
    assert {row["Calls"] for row in linears} == {3}
    names = {row["Module"] for row in rows}
    assert {"Block.0.Attention.0.Linear.0", "Block.2.Sequential.3.Linear.11"} <= names
    assert not any(row["Backward (ns)"] for row in linears)
