"""What the host did while the GPU idled: blocking calls, functions, loading, n-th steps."""

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COPY_TO_HOST
from gpu_profile.analysis.arrays.periods import find_period, find_rare, find_single
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import MS, Rank, Recording

COLLATE = ("collate", "/home/user/train.py", 9)
FETCH = ("fetch", "/usr/lib/python3.12/site-packages/torch/utils/data/_utils/fetch.py", 57)
STEP = ("&lt;module&gt;", "/home/user/train.py", 30)
LOG = ("write_log", "/home/user/log.py", 7)
ENCODE = ("encode", "/usr/lib/python3.12/json/encoder.py", 200)


def judged(recording: Recording, folder: Path) -> tuple[Finding, ...]:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return diagnose_reports(database).findings


def only_of(recording: Recording, folder: Path) -> Finding:
    (finding,) = judged(recording, folder)
    return finding


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "no NVTX"])
@pytest.mark.parametrize("pageable", [True, False])
def test_item_in_each_step_is_named(pageable: bool, marked: bool, tmp_path: Path) -> None:
    """A value read in each step, after which the host takes a millisecond to begin the next: either
    without the read or without the millisecond the GPU would not idle.
    """

    def item(rank: Rank) -> None:
        rank.item(pageable)
        rank.work(900)

    training = Training(ranks=1, after=item, step_range="step" if marked else "")
    finding, idle = judged(training.record(), tmp_path)
    assert (finding.kind, finding.cause, idle.kind) == ("synchronization", "sync", "idle")
    assert finding.cost_ms == pytest.approx(1, abs=0.4)
    call = "cudaMemcpyAsync of one value" if pageable else "cudaStreamSynchronize after one value"
    (line,) = [line for line in finding.evidence if ".item()" in line]
    assert line.startswith(f"rank 0: {call}")
    # Steps found without a range may leave the call of one of twelve outside.
    times = 1.0 if marked else pytest.approx(1, abs=0.1)
    assert float(line.partition(" times a step, held the host")[0].rpartition(" ")[2]) == times


def test_allocations_come_before_launches_that_hide_them(tmp_path: Path) -> None:
    """160 launches take 4.8 ms a step for 1.3 ms of kernels: without them all, four allocations of
    75 us would run ahead of the GPU. But a CUDA graph cannot be captured with them.
    """

    def allocate(rank: Rank) -> None:
        for _ in range(4):
            rank.call("cudaMalloc_v3020", 75)

    training = Training(ranks=1, layers=160, kernel_us=8, host_us=30, after=allocate)
    finding, launches = judged(training.record(), tmp_path)
    assert (finding.kind, launches.kind) == ("allocation", "host_bound")
    assert finding.cost_ms == pytest.approx(0.3, abs=0.01)
    assert launches.cost_ms == pytest.approx(4.79, abs=0.01)


@pytest.mark.parametrize(("work_us", "overlaps"), [(200, False), (3000, True)])
def test_a_wait_before_a_pause_of_the_host_says_that_both_cost_the_same_time(
    work_us: int, overlaps: bool, tmp_path: Path
) -> None:
    """The step has 8 ms on the GPU, so without the wait the host's 3 ms would cost nothing; 0.2 ms
    are less than 3 % of it."""

    def read(rank: Rank) -> None:
        rank.item()
        rank.work(work_us)

    findings = judged(Training(ranks=1, after=read).record(), tmp_path)
    assert {finding.kind for finding in findings} == (
        {"synchronization", "idle"} if overlaps else set()
    )
    lines = [
        line for finding in findings for line in finding.evidence if "the same loss as" in line
    ]
    assert len(lines) == overlaps


def test_the_function_that_waits_is_named(tmp_path: Path) -> None:
    def item(rank: Rank) -> None:
        start = rank.now
        rank.item()
        rank.sample(start, LOG, STEP)
        rank.work(900)

    finding, _ = judged(Training(ranks=1, after=item).record(), tmp_path)
    assert finding.cause == "sync"
    (line,) = [line for line in finding.evidence if "Python samples" in line]
    assert " ms a step in write_log (log.py:7): " in line


def test_a_pause_is_named_by_default(tmp_path: Path) -> None:
    """As --annotate steps marks it: function and line, and what garbage collection takes of it."""

    function = 'stack | main "train.py" 0 | sample_neighbours "sampler.py" 41'

    def pause(rank: Rank) -> None:
        start = rank.now
        rank.work(30_000)
        rank.pause("garbage collection", rank.now - 3 * MS)
        rank.pause(function, start, rank.thread & 0xFFFFFF)

    finding = only_of(Training(ranks=1, layer=lambda _: None, after=pause).record(), tmp_path)
    assert (finding.kind, finding.cause) == ("idle", "host")
    (collected,) = [line for line in finding.evidence if "garbage collection: " in line]
    assert float(collected.split()[4]) == pytest.approx(3, rel=0.1)
    (named,) = [line for line in finding.evidence if "in sample_neighbours (sampler.py:41)" in line]
    assert float(named.split()[2]) == pytest.approx(finding.at_most_ms - 3, rel=0.1)
    assert "--annotate" not in finding.advice


def test_a_pause_for_garbage_has_its_own_advice(tmp_path: Path) -> None:
    def collect(rank: Rank) -> None:
        start = rank.now
        rank.work(9_000)
        rank.pause("garbage collection", start)

    finding = only_of(Training(ranks=1, layer=lambda _: None, after=collect).record(), tmp_path)
    assert (finding.kind, finding.cause) == ("idle", "host")
    assert "gc.freeze()" in finding.advice


def every(n: int, act: Callable[[Rank], None]) -> Callable[[Rank], None]:
    turn = count()
    return lambda rank: act(rank) if next(turn) % n == 0 else None


@pytest.mark.parametrize("n", [2, 4, 15])
def test_a_delay_in_every_nth_step_is_named_with_n(n: int, tmp_path: Path) -> None:
    """Also one that comes so seldom that a robust mean leaves it out."""
    late = every(n, lambda rank: rank.work(100_000))
    training = Training(ranks=1, steps=4 * n + 1, data=late, layers=20)
    finding = only_of(training.record(), tmp_path)
    assert (finding.kind, finding.cause) == ("idle", "data")
    assert any(f"every {n}{'nd' if n == 2 else 'th'} step has" in e for e in finding.evidence)
    # The host's lead of up to n - 1 steps hides a part of each delay.
    assert 0.35 * 100 / n < finding.at_most_ms <= 100 / n


def find_late_batches(act: Callable[[Rank], None], folder: Path) -> Finding:
    """The finding of a training that does this before each fourth batch."""
    late = every(4, act)

    def batch(rank: Rank) -> None:
        late(rank)
        rank.copy(1)

    training = Training(ranks=1, steps=17, after=batch, layers=20)
    (finding,) = [f for f in judged(training.record(), folder) if f.kind == "idle"]
    assert finding.cause == "host"
    return finding


def test_where_another_cause_is_named_the_loader_is_not(tmp_path: Path) -> None:
    def log(rank: Rank) -> None:
        start = rank.now
        rank.work(100_000)
        rank.sample(start, ENCODE, LOG, STEP)

    finding = find_late_batches(log, tmp_path)
    assert any("write_log (log.py:7)" in line for line in finding.evidence)
    assert any("every 4th step has" in line for line in finding.evidence)
    assert not any("workers" in line for line in finding.evidence)


def test_a_wait_before_each_fourth_batch_may_be_the_loaders(tmp_path: Path) -> None:
    """Without samples or ranges nobody can tell: the cause stays the host, the evidence says it."""
    finding = find_late_batches(lambda rank: rank.work(100_000), tmp_path)
    assert "a data loader whose 4 workers are too slow waits in this way" in finding.evidence
    assert "If it loads data there: prepare batches ahead" in finding.advice


@pytest.mark.parametrize(
    ("values", "n"),
    [
        ([1, 100, 1, 1] * 5, 4),
        ([100, 1] * 6, 2),
        ([5, 5, 5, 6] * 5, 0),
        ([1, 1, 90, 1, 1, 1, 90, 1, 90, 1, 1, 1], 0),
        ([1] * 20 + [300] + [1] * 20, 0),
        ([100] * 12, 0),
        ([], 0),
        # a host that is far ahead hides some of a delay, and a log doubles another
        ([0, 0, 63, 0, 0, 0, 0, 137, 0, 0, 0, 0, 15, 0, 0, 0, 0], 5),
        ([0, 0, 63, 0, 0, 41, 0, 137, 0, 0, 30, 0, 15, 0, 0, 44, 0], 0),
    ],
)
def test_periods(values: list[int], n: int) -> None:
    period = find_period(np.array(values, np.int64) * 1_000_000)
    assert (period.n if period else 0) == n


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0, 0, 27, 0, 0, 0, 0, 20, 0, 0], "2 of 10 steps have 23.50 ms of it, the others 0.00 ms"),
        ([1, 1, 300, 1, 1, 1], "None"),
        ([1, 1, 300, 90, 1, 1], "None"),
        ([5, 5, 6, 6, 5, 5], "None"),
        ([100] * 12, "None"),
        ([], "None"),
    ],
)
def test_rare_delays(values: list[int], text: str) -> None:
    assert str(find_rare(np.array(values, np.int64) * 1_000_000)) == text


@pytest.mark.parametrize(
    ("values", "single"),
    [
        ([2] * 11 + [115, 687] + [2] * 10 + [104, 92], [11, 12, 23, 24]),
        ([0] * 8 + [15, 2] + [0] * 8 + [11, 2] + [0] * 8 + [14, 173], [29]),
        ([0] * 11 + [21, 679] + [0] * 9 + [18, 85, 0, 0], [11, 12, 22, 23]),
        ([0, 0, 27, 0, 0, 0, 0, 20, 0, 0], []),
        ([0, 60, 0, 0, 0, 35, 0, 0, 0, 0, 0, 90, 0, 0], []),
        ([1, 1, 30, 30, 30, 1, 1, 1], []),
        ([5, 5, 6, 6, 5, 5], []),
        ([100] * 12, []),
        ([], []),
    ],
    ids=[
        *("evaluation", "beside a period", "neighbours", "two alike", "three", "a quarter", "even"),
        *("always", "none"),
    ],
)
def test_single_delays(values: list[int], single: list[int]) -> None:
    assert np.flatnonzero(find_single(np.array(values, np.int64) * 1_000_000)).tolist() == single


def in_steps(delays: Mapping[int, float]) -> Callable[[Rank], None]:
    """Host work of so many ms in these steps."""
    turn = count()
    return lambda rank: rank.work(1000 * delays.get(next(turn), 0))


def test_an_evaluation_and_the_end_are_no_cost_of_each_step(tmp_path: Path) -> None:
    """Four of 26 steps are late, so that a robust mean has them; they are two delays."""
    late = in_steps({12: 115, 13: 687, 24: 104, 25: 93})
    recording = Training(ranks=1, steps=27, data=late).record()
    with Database.open(recording.save(tmp_path / "run.sqlite")) as database:
        diagnosis = diagnose_reports(database)
    assert diagnosis.findings == ()
    (note,) = (note for note in diagnosis.unjudged if "comes again" in note)
    assert note.startswith("whether a delay of the host comes again: in 4 of 26 steps rank 0 idled")


def test_a_delay_that_comes_once_adds_nothing_to_one_that_repeats(tmp_path: Path) -> None:
    often = dict.fromkeys(range(4, 40, 5), 30.0)
    costs = []
    for delays in (often, {**often, 38: 900.0}):
        training = Training(ranks=1, steps=41, data=in_steps(delays), layers=20)
        costs.append(only_of(training.record(), tmp_path).at_most_ms)
        (tmp_path / "run.sqlite").unlink()
    assert costs[1] == pytest.approx(costs[0], rel=0.25)  # the host has less lead after it


def test_the_copies_of_a_checkpoint_are_no_habit_of_the_loop(tmp_path: Path) -> None:
    """Ten tensors of 2 MB in every fifth step are two pageable copies a step in the mean."""

    def saves(rank: Rank) -> None:
        for _ in range(10):
            rank.copy(2, gb_per_s=10, pageable=True)

    training = Training(ranks=1, steps=21, after=every(5, saves))
    assert judged(training.record(), tmp_path) == ()


@pytest.mark.parametrize(
    ("n", "said"),
    [(10, "pageable copies device to host in one of 10 steps, 2.00 MB at 10.0 GB/s"), (99, "")],
    ids=["in one of ten steps", "before the steady ones"],
)
def test_copies_of_few_steps_are_no_number_a_step(n: int, said: str, tmp_path: Path) -> None:
    def saves(rank: Rank) -> None:
        rank.copy(2, gb_per_s=10, pageable=True, kind=COPY_TO_HOST)

    def loads(rank: Rank) -> None:
        rank.copy(20, gb_per_s=10, pageable=True)

    training = Training(ranks=1, steps=21, data=loads, after=every(n, saves))
    (finding,) = (f for f in judged(training.record(), tmp_path) if f.kind == "pageable_copy")
    assert finding.evidence[0].startswith("rank 0: 1.0 pageable copies a step host to device")
    lines = [line for line in finding.evidence if "device to host" in line]
    assert lines == ([f"rank 0: {said}"] if said else [])


def test_a_delay_in_two_of_few_steps_is_named(tmp_path: Path) -> None:
    """Two delays of 100 ms prove no period, and yet they take a third of the time."""
    late = every(5, lambda rank: rank.work(100_000))
    training = Training(ranks=1, steps=14, data=late, layers=20)
    (finding,) = judged(training.record(), tmp_path)
    assert (finding.kind, finding.cause) == ("idle", "data")
    assert any(e.startswith("rank 0: 2 of 13 steps have ") for e in finding.evidence)


@pytest.mark.parametrize(
    ("frames", "cause", "place"),
    [
        ((COLLATE, FETCH, STEP), "data", "collate (train.py:9)"),
        ((LOG, STEP), "host", "write_log (log.py:7)"),
        ((("f", "/home/user/own/__init__.py", 2), STEP), "host", "f (own.__init__.py:2)"),
        ((("a\x1b[31m", "/home/user/b\n.py", 3), STEP), "host", "a?[31m (b?.py:3)"),
        ((ENCODE, LOG, STEP), "host", "write_log (log.py:7), in encode (encoder.py:200)"),
    ],
)
def test_python_samples_name_the_function(
    frames: tuple[tuple[str, str, int], ...], cause: str, place: str, tmp_path: Path
) -> None:
    def work(rank: Rank) -> None:
        start = rank.now
        rank.work(12_000)
        rank.sample(start, *frames)

    training = Training(ranks=1, layer=lambda _: None, after=work)
    finding = only_of(training.record(), tmp_path)
    assert (finding.kind, finding.cause) == ("idle", cause)
    (line,) = [line for line in finding.evidence if f" ms a step in {place}: " in line]
    assert float(line.split()[2]) == pytest.approx(finding.at_most_ms, rel=0.02)


@pytest.mark.parametrize(
    ("call", "loader", "cause", "words"),
    [
        ("poll", True, "data", "waited for a queue, a pipe or another process"),
        ("poll", False, "host", "waited for a queue, a pipe or another process"),
        ("clock_nanosleep", True, "host", "waited for the clock (a sleep)"),
    ],
)
def test_waits_of_the_main_thread_tell_the_loader(
    call: str, loader: bool, cause: str, words: str, tmp_path: Path
) -> None:
    training = Training(ranks=1, after=lambda rank: rank.wait_for(call, 12_000))
    recording = training.record()
    if loader:
        recording.add("ThreadNames", recording.name("pt_data_worker"), 0, 1)
    finding = only_of(recording, tmp_path)
    assert (finding.kind, finding.cause) == ("idle", cause)
    assert any(words in line for line in finding.evidence)


def test_damaged_samples_are_left_out(tmp_path: Path) -> None:
    """A payload that is cut, of another schema, or claims more frames than it has."""

    def work(rank: Rank) -> None:
        start = rank.now
        rank.work(12_000)
        rank.sample(start, LOG)

    recording = Training(ranks=1, after=work).record()
    rows = recording.rows["NVTX_EVENTS"]
    for index, row in enumerate(rows):
        blob = row[7]
        if isinstance(blob, bytes):
            bad = (blob[:40], b"", blob[:8] + b"\xff" * 8 + blob[16:], blob[:-8])[index % 4]
            rows[index] = (*row[:7], bad)
    finding = only_of(recording, tmp_path)
    assert (finding.kind, finding.cause) == ("idle", "host")
    assert not any("samples" in line for line in finding.evidence)


def test_python_between_tokens_is_work_of_the_host_and_no_slow_launch(tmp_path: Path) -> None:
    """A step decodes 16 tokens: a CUDA graph of 300 us each, and 600 us of Python after each."""

    def decode(rank: Rank) -> None:
        for _ in range(16):
            rank.graph(300)
            rank.synchronize()
            rank.work(600)

    training = Training(ranks=1, layers=0, after=decode)
    finding = judged(training.record(), tmp_path)[0]
    assert (finding.kind, finding.cause) == ("idle", "host")
    assert finding.cost_ms == pytest.approx(16 * 0.6, rel=0.1)


def test_short_pauses_after_a_wait_for_the_gpu_are_that_waits(tmp_path: Path) -> None:
    """Eight times a step a value is read, after which the host takes 0.4 ms: the GPU's 1 ms of
    kernels would hide that without the wait.
    """

    def read(rank: Rank) -> None:
        for _ in range(8):
            rank.kernel(1000)
            rank.item()
            rank.work(400)

    training = Training(ranks=1, layers=20, after=read)
    first = judged(training.record(), tmp_path)[0]
    assert (first.kind, first.cause) == ("synchronization", "sync")
