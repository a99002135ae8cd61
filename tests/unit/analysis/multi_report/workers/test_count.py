"""How many workers read reports, and how many of them analyse at a time."""

import pytest

from gpu_profile.analysis.multi_report.workers.count import fit_turns, fit_workers


@pytest.mark.parametrize(
    ("reports", "megabytes", "workers", "turns"),
    [(8, 198, 10, 6), (64, 198, 87, 43), (8, 20, 45, 25), (8, 400, 5, 4), (1, 10_000, 1, 1)],
)
def test_memory_bounds_the_workers_of_large_reports(
    reports: int, megabytes: int, workers: int, turns: int
) -> None:
    sizes = [megabytes * 1_000_000] * reports
    assert fit_workers(sizes) == workers
    assert fit_turns(sizes, workers) == turns


def test_what_is_held_beside_the_workers_leaves_fewer_turns() -> None:
    assert fit_turns([198_000_000] * 8, 8, beside=80_000_000) == 8
    assert fit_turns([250_000_000] * 8, 8) == 5
    assert fit_turns([250_000_000] * 8, 8, beside=80_000_000) == 4
