"""Small copies to the GPU, one after the other, in programs that are no engines."""

from pathlib import Path

import pytest

from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def test_a_row_of_small_copies_costs_all_but_one(tmp_path: Path) -> None:
    """A step of 200 copies of 32 bytes, each 8.8 us with the host's work, and kernels of 0.6 ms."""

    def copy_one_by_one(rank: Rank) -> None:
        for _ in range(200):
            rank.copy(0.000032, gb_per_s=0.04, pageable=True)
            rank.work(4)

    training = Training(ranks=1, steps=20, layers=2, kernel_us=300, after=copy_one_by_one)
    first = judged(training.record(), tmp_path)[0]
    assert (first.kind, first.cause) == ("many_small_copies", "copy")
    assert first.cost_ms == pytest.approx(199 * 0.0088, rel=0.05)
    (line,) = [line for line in first.evidence if "copies to the GPU" in line]
    assert "200 copies to the GPU a step, one after the other, of 32 bytes" in line


def test_the_copies_of_a_batch_are_few(tmp_path: Path) -> None:
    """Ten tensors of a batch, and one copy in each of 40 layers."""

    def copy_batch(rank: Rank) -> None:
        for _ in range(10):
            rank.copy(0.000032, gb_per_s=0.04, pageable=True)

    training = Training(
        ranks=1, steps=20, data=copy_batch, layer=lambda rank: rank.copy(0.00001, gb_per_s=1)
    )
    kinds = {finding.kind for finding in judged(training.record(), tmp_path)}
    assert "many_small_copies" not in kinds


def loop_of_copies(rank: Rank, kernel_us: float = 8.0, *, waits: bool = False) -> None:
    """A copy of 64 bytes before each of 40 kernels, after 12 us of work."""
    for _ in range(40):
        rank.work(12)
        rank.copy(0.000064, gb_per_s=0.1)
        if waits:
            rank.synchronize()
        rank.kernel(kernel_us)


def test_copies_before_each_kernel_of_a_loop_cost_all_but_one(tmp_path: Path) -> None:
    """Of turns of 22 us the kernels are left, 9 us with the time between two."""
    training = Training(ranks=1, steps=20, layers=2, kernel_us=50, after=loop_of_copies)
    first = judged(training.record(), tmp_path)[0]
    assert (first.kind, first.cause) == ("many_small_copies", "copy")
    assert first.cost_ms == pytest.approx(39 * 0.013, rel=0.1)
    assert "each before a few short kernels, 39 a step, of 64 bytes" in first.evidence[0]


@pytest.mark.parametrize(("kernel_us", "waits"), [(20.0, False), (8.0, True)])
def test_copies_with_waits_or_before_long_kernels_are_no_such_loop(
    tmp_path: Path, kernel_us: float, waits: bool
) -> None:
    def copy_in_turns(rank: Rank) -> None:
        loop_of_copies(rank, kernel_us, waits=waits)

    training = Training(ranks=1, steps=20, layers=2, kernel_us=50, after=copy_in_turns)
    kinds = {finding.kind for finding in judged(training.record(), tmp_path)}
    assert "many_small_copies" not in kinds
