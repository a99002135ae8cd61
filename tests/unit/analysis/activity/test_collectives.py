"""Which kernels of different ranks are one collective."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.comm.collectives import match_collectives
from gpu_profile.analysis.activity.comm.lanes import UNMATCHED, Arrivals, Collectives
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.our_tables.comm_sum import COMM_SUM
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.scenarios import Training

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
REDUCE, GATHER = "ncclDevKernel_AllReduce", "ncclDevKernel_AllGather"


def lane(start: IntArray, end: IntArray, stream: int = 1, name: str = REDUCE) -> Collectives:
    same = np.full(len(start), stream)
    nil = np.zeros(len(start), np.int64)
    return Collectives(start, end, same, nil, (name,), nil)


def together(*parts: Collectives) -> Collectives:
    """Several streams of one rank, in time order."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    codes = np.concatenate([np.full(len(part), names.index(part.names[0])) for part in parts])
    start, end, stream = (
        np.concatenate([getattr(part, key) for part in parts]) for key in ("start", "end", "stream")
    )
    order = np.argsort(start)
    nil = np.zeros(len(start), np.int64)
    return Collectives(start[order], end[order], stream[order], codes[order], names, nil)


def collective(seed: int, late: int = 0, count: int = 30) -> tuple[IntArray, IntArray]:
    """Starts up to 300 us apart by rank (plus `late` ns), and common ends 100 us after."""
    random = np.random.default_rng(seed)
    base = np.arange(count) * 2_000_000
    return base + random.integers(0, 300_000, count) + late, base + 500_000 + late


def groups(by_rank: tuple[Arrivals, ...]) -> list[set[int]]:
    return [set(arrivals.group.tolist()) for arrivals in by_rank]


def test_the_last_rank_ends_the_wait() -> None:
    end = np.arange(10) * 1_000_000 + 900_000
    ranks = [lane(end - early, end) for early in (500_000, 400_000, 100_000)]
    by_rank = match_collectives(ranks)
    assert groups(by_rank) == [{0}, {0}, {0}]
    assert np.array_equal(by_rank[0].last, end - 100_000)
    assert by_rank[2].lateness.tolist() == [300_000] * 10
    assert by_rank[0].lateness.tolist() == [-400_000] * 10
    assert by_rank[1].ranks.tolist() == [3] * 10


def test_a_capture_that_began_late_is_shifted_into_place() -> None:
    start, end = collective(1)
    other, _ = collective(2)
    by_rank = match_collectives([lane(start, end), lane(other[3:], end[3:])])
    assert by_rank[0].group.tolist() == [UNMATCHED] * 3 + [0] * 27
    assert by_rank[1].group.tolist() == [0] * 27
    assert np.array_equal(by_rank[0].order[3:], by_rank[1].order)


@pytest.mark.parametrize("ahead", [9, 19, 30])
def test_a_window_misses_what_a_host_that_runs_ahead_launched_before_it(ahead: int) -> None:
    """Two ranks are late; the hosts of the others are many collectives ahead of theirs."""
    ends = np.arange(40 + ahead) * 2_000_000 + 900_000
    starts = [ends - wait for wait in (700_000, 690_000, 200_000, 190_000)]
    windows = [slice(ahead, None)] * 2 + [slice(0, 42)] * 2
    ranks = [
        lane(start[window], ends[window]) for start, window in zip(starts, windows, strict=True)
    ]
    arrivals = match_collectives(ranks)
    assert groups(arrivals) == [{0, UNMATCHED}] * 4
    matched = arrivals[0].is_matched
    assert (arrivals[0].last - ranks[0].start)[matched].tolist() == [510_000] * (42 - ahead)


def test_pairs_that_only_run_side_by_side_are_two_communicators() -> None:
    one, other = 0, 150_000
    ranks = [
        lane(collective(seed, late)[0], collective(seed, late)[1])
        for seed, late in ((1, one), (2, one), (3, other), (4, other))
    ]
    assert groups(match_collectives(ranks)) == [{0}, {0}, {1}, {1}]


def test_streams_are_told_apart_whatever_their_order() -> None:
    reduce = [lane(*collective(seed), stream=1) for seed in (1, 2)]
    gather = [lane(*collective(seed, 900_000), stream=9, name=GATHER) for seed in (3, 4)]
    by_rank = match_collectives([together(reduce[0], gather[0]), together(gather[1], reduce[1])])
    assert all(arrivals.is_matched.all() for arrivals in by_rank)
    assert groups(by_rank) == [{0, 1}, {0, 1}]


def test_broadcasts_whose_root_ends_early_do_not_hide_a_communicator() -> None:
    """Parameters are sent before the first step: the root's kernels end before the others start."""
    _, reduce_end = collective(1, count=20)
    base = np.arange(60) * 400_000 - 60 * 400_000
    ranks = []
    for rank in range(4):
        sent = base + (0 if rank == 0 else 100_000 + 20_000 * rank)
        copied = lane(sent, sent + 40_000 + 30_000 * (rank % 2), name="ncclDevKernel_Broadcast")
        starts, _ = collective(rank + 1, count=20)
        ranks.append(together(copied, lane(starts, reduce_end + 500 * rank)))
    by_rank = match_collectives(ranks)
    reduces = slice(60, None)
    assert [set(arrivals.group[reduces].tolist()) for arrivals in by_rank] == [{0}] * 4
    assert by_rank[0].ranks[reduces].tolist() == [4] * 20


def test_one_rank_alone_is_unmatched() -> None:
    start, end = collective(1)
    (arrivals,) = match_collectives([lane(start, end)])
    assert not arrivals.is_matched.any()
    assert match_collectives([]) == ()


def test_clocks_that_disagree_are_matched_only_with_their_error_known() -> None:
    start, end = collective(1)
    shifted, ends = collective(2, late=700_000)
    assert not match_collectives([lane(start, end), lane(shifted, ends)])[0].is_matched.any()
    assert match_collectives([lane(start, end), lane(shifted, ends)], 800_000)[0].is_matched.all()


def test_ends_that_differ_by_less_than_a_millisecond_join_where_all_names_agree() -> None:
    start, end = collective(1)
    late, _ = collective(2)
    descheduled = end + np.where(np.arange(len(end)) % 2, 700_000, 300_000)
    assert groups(match_collectives([lane(start, end), lane(late, descheduled)])) == [{0}, {0}]
    other = lane(late, descheduled, name=GATHER)
    assert groups(match_collectives([lane(start, end), other])) == [{UNMATCHED}, {UNMATCHED}]


def test_two_groups_with_the_same_names_stay_two() -> None:
    """Tensor parallelism by two, twice: all four ranks call the same in the same order."""
    start, end = collective(1)
    other, ends = start + 60_000, end + 60_000
    by_rank = match_collectives(
        [lane(start, end), lane(start + 5, end + 5), lane(other, ends), lane(other, ends)]
    )
    assert groups(by_rank) == [{0}, {0}, {1}, {1}]


def test_no_wait_is_longer_than_the_kernel_in_which_a_rank_waits() -> None:
    """Nine of ten meet; the tenth rank's kernel ran minutes later."""
    start, end = collective(1, count=20)
    far_start, far_end = start.copy(), end.copy()
    far_start[-1] += 10**12
    far_end[-1] += 10**12
    by_rank = match_collectives([lane(start, end), lane(far_start, far_end)])
    for arrivals, own in zip(by_rank, (start, far_start), strict=True):
        assert arrivals.group.tolist() == [0] * 19 + [UNMATCHED]
        assert (arrivals.last - own)[:-1].max() < 10**6


def test_sizes_come_from_nccls_own_payload(tmp_path: Path) -> None:
    training = Training(ranks=2, transfer_us=100, message=8_000_000)
    with Database.open(training.save(tmp_path)) as database:
        table = COMM_SUM.table(database)
    assert table.column("Moved") == (96.0, 96.0)
    assert table.column("Alg BW") == table.column("Bus BW") == (80.0, 80.0)


def test_all_four_recorded_ranks_are_one_communicator() -> None:
    """Their all-reduces end up to 0.7 ms apart where a process was descheduled."""
    with ExitStack() as files:
        reports = [
            files.enter_context(Database.open(DATA / f"rank{rank}.sqlite.gz")) for rank in range(4)
        ]
        scopes = run_of([survey_report(report) for report in reports]).scopes
        parts = [states_of(report, scope) for report, scope in zip(reports, scopes, strict=True)]
        table = COMM_SUM.merge(parts)
    assert table.column("Communicator") == (0, 0, 0, 0)
    assert table.column("Ranks") == (4, 4, 4, 4)
    assert table.column("Members") == ("0-3",) * 4
