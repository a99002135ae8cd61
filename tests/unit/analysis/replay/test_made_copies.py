"""Copies of what the host makes in a pause: where the GPU does that work, they are not made."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.causes import PAUSES
from gpu_profile.analysis.replay.edits.made_copies import describe_made_copies, find_made_copies
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.replay.test_served_copies import KERNELS_US, PAUSE_US, record
from tests.unit.analysis.synthetic import Rank

COPY_MB, COPY_US = 16, 2000
Act = Callable[[Rank], None]


def send(rank: Rank, megabytes: float = COPY_MB) -> None:
    rank.copy(megabytes, gb_per_s=8, pageable=True)


def draw_edges(rank: Rank) -> None:
    rank.work(PAUSE_US)
    send(rank)


def fetch_batch(rank: Rank) -> None:
    """A loader that is nearly as fast as the GPU: the copy is longer than the pause."""
    rank.work(COPY_US / 2)
    send(rank)


def send_numbers(rank: Rank) -> None:
    """Words as numbers, 16 us of the step."""
    rank.work(PAUSE_US)
    send(rank, 0.128)


def send_tables(rank: Rank) -> None:
    """The first table waits for the kernels, 2.5 ms, and the second one finds the GPU idle."""
    rank.work(1500)
    send(rank, 0.008)
    send_numbers(rank)


def measure_results(rank: Rank) -> None:
    """The work is on results of the GPU, and a batch follows."""
    rank.copy(1, gb_per_s=8, pageable=True, kind=2)
    rank.work(PAUSE_US)
    send(rank)


def pause_in_each_fourth() -> Act:
    """A pause in each fourth step, and a batch in all."""
    steps = count()

    def act(rank: Rank) -> None:
        rank.work(PAUSE_US if next(steps) % 4 == 0 else 5)
        send(rank)

    return act


@pytest.mark.parametrize(
    ("act", "copies"),
    [
        (draw_edges, 1),
        (fetch_batch, 0),
        (send_numbers, 0),
        (send_tables, 1),
        (measure_results, 0),
        (pause_in_each_fourth(), 0),
    ],
)
def test_copies_of_what_a_pause_makes_are_found(act: Act, copies: int, tmp_path: Path) -> None:
    with Database.open(record(act, tmp_path)) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    graph = replay.graph
    assert len(find_made_copies(graph)) == copies * graph.steps
    assert bool(describe_made_copies(graph)) == (copies > 0)
    if copies:
        assert predict_us(graph, PAUSES.apply) == pytest.approx(KERNELS_US, rel=0.02)


def test_one_finding_tells_the_pause_and_the_copy(tmp_path: Path) -> None:
    """Eight kernels of the step run beside the pause."""
    with Database.open(record(draw_edges, tmp_path)) as database:
        (finding,) = diagnose_reports(database).findings
    assert (finding.kind, finding.cause) == ("idle", "host")
    assert finding.cost_ms == pytest.approx((PAUSE_US + COPY_US - 8 * 500) / 1e3, rel=0.03)
    told = "1.0 copies a step of pageable memory, 16.00 MB, bring"
    assert any(line.startswith(told) for line in finding.evidence)
    fix, gain = finding.other_fix or ("", 0.0)
    assert fix.endswith("pinned memory")
    assert gain == pytest.approx(COPY_US / 1e3, rel=0.2)


def test_without_a_copy_no_pinned_memory_is_told(tmp_path: Path) -> None:
    with Database.open(record(send_numbers, tmp_path)) as database:
        (finding,) = diagnose_reports(database).findings
    fix, _ = finding.other_fix or ("", 0.0)
    assert (finding.kind, fix.endswith("pinned memory")) == ("idle", False)
