"""Kernels that are tiny as a part of a batch only: their few threads leave the GPU idle."""

from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.findings.test_gpu_use import FEW, save_with_grids
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

ALL_BLOCKS = 132 * 1024
"""Of one thread: they fill 132 multiprocessors."""


def step_weights(rank: Rank) -> None:
    """As an optimizer that has a group for each weight."""
    for _ in range(500):
        rank.work(12)
        rank.kernel(8, FEW)


@pytest.mark.parametrize(
    ("blocks", "first"), [(9, "tiny_kernels"), (ALL_BLOCKS, "host_bound")], ids=["narrow", "wide"]
)
def test_narrow_kernels_of_a_loop_are_tiny(blocks: int, first: str, tmp_path: Path) -> None:
    training = Training(ranks=1, steps=5, layers=5, kernel_us=8, after=step_weights)
    with Database.open(save_with_grids(training, tmp_path, blocks)) as database:
        findings = diagnose_reports(database).findings
    assert findings[0].kind == first
    counts = "0 of 506 kernels a step take under 5 us, 501 others would in a batch that fills the"
    assert any(counts in line for line in findings[0].evidence) == (first == "tiny_kernels")
