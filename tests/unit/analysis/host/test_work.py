"""What the host did while the GPU idled: functions, waits, loading, as evidence."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.idle.gaps import LAUNCH, STALL, SYNC
from gpu_profile.analysis.host.frames import Frame, Stack
from gpu_profile.analysis.host.functions import top_functions
from gpu_profile.analysis.host.waits import QUEUE, SLEEP
from gpu_profile.analysis.host.work import HostWork, host_work, load_host_record
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.scenarios import Act, Training
from tests.unit.analysis.synthetic import MS, Rank

FETCH = ("fetch", "/venv/site-packages/torch/utils/data/_utils/fetch.py", 57)
TRAIN = ("train", "/home/me/train.py", 30)
PACKAGE = "/venv/lib/python3.12/site-packages"


def work_of(after: Act, folder: Path, steps: int = 12) -> dict[int, HostWork]:
    """The work of a rank that does `after` at the end of each step."""
    report = Training(ranks=1, steps=steps, after=after).save(folder)
    with Database.open(report) as database:
        (activity,) = activities_of(database, Scope())
        return host_work(activity, load_host_record(database))


def stack_of(*frames: tuple[str, str, int]) -> Stack:
    return tuple(Frame(*frame) for frame in frames)


def test_a_function_of_the_user_comes_before_those_that_it_calls() -> None:
    json = ("encode", f"{PACKAGE}/json/encoder.py", 200)
    stacks = [
        *[stack_of(("train", "/home/me/train.py", 9), json)] * 2,
        stack_of(("train", "/home/me/train.py", 12), json),
        *[stack_of(("log", "/home/me/log.py", 5))] * 2,
        stack_of(json),
    ]
    assert top_functions(stacks) == [
        ("train (train.py:9), in encode (encoder.py:200)", 3),
        ("log (log.py:5)", 2),
        ("encode (encoder.py:200)", 1),
    ]
    assert top_functions([]) == []


@pytest.mark.parametrize(
    ("caller", "words"),
    [
        (("format_stack", f"{PACKAGE}/torch/fx/traceback.py", 0), "torch.fx.traceback.py"),
        (("format_stack", f"{PACKAGE}/torch/fx/traceback.py", 9), "torch.fx.traceback.py:9"),
    ],
)
def test_the_standard_library_is_told_with_the_library_that_called_it(
    caller: tuple[str, str, int], words: str
) -> None:
    user = ("forward", "/home/me/train.py", 42)
    python = ("checkcache", "/usr/lib/python3.12/linecache.py", 72)
    told = "forward (train.py:42), in checkcache (linecache.py:72)"
    deep = stack_of(user, caller, ("extract", "/usr/lib/python3.12/traceback.py", 7), python)
    assert top_functions([deep]) == [(f"{told}, called by format_stack ({words})", 1)]
    assert top_functions([stack_of(user, python)]) == [(told, 1)]
    library = stack_of(user, caller)
    assert "called by" not in top_functions([library])[0][0]


def test_an_event_loop_is_told_by_its_task() -> None:
    """Else each pause of a server would be one of `serve`, which started the loop."""
    library = "<path>/lib/python3"
    loop = [
        ("serve", "serve.py", 40),
        ("run_forever", f"{library}/asyncio/base_events.py", 0),
        ("_run_once", f"{library}/asyncio/base_events.py", 0),
    ]
    run, select = (
        ("_run", f"{library}/asyncio/events.py", 0),
        ("select", f"{library}/selectors.py", 9),
    )
    handle, parse = ("handle", "serve.py", 0), ("parse", "words.py", 12)
    stacks = [
        *[stack_of(*loop, run, handle, parse)] * 3,
        *[stack_of(*loop, select)] * 2,
        stack_of(*loop, run, ("drain", f"{library}/asyncio/streams.py", 7)),
        stack_of(("run", f"{PACKAGE}/gevent/hub.py", 647)),
    ]
    assert top_functions(stacks) == [
        ("parse (words.py:12), task handle", 3),
        ("asyncio's event loop, which has no task to run", 2),
        ("drain (streams.py:7)", 1),
        ("gevent's hub, which has no task to run", 1),
    ]


def test_equal_counts_are_in_the_order_of_names() -> None:
    stacks = [stack_of((name, "/home/me/a.py", 1)) for name in ("c", "a", "b")]
    assert [name for name, _ in top_functions(stacks)] == ["a (a.py:1)", "b (a.py:1)", "c (a.py:1)"]


def test_a_work_without_samples_and_waits_says_nothing() -> None:
    work = HostWork(idle=10 * MS)
    assert (work.lines(), work.is_loading, work.before_input) == ([], False, False)
    assert HostWork().lines() == []


def test_functions_with_a_fifth_of_the_samples_are_shown() -> None:
    functions = ("a (a.py:1)", 15), ("b (b.py:2)", 4), ("c (c.py:3)", 1)
    work = HostWork("Python", 20, 0, functions, idle=40 * MS, steps=4)
    assert work.lines() == [
        "7.50 ms a step in a (a.py:1): 75 % of 20 Python samples",
        "2.00 ms a step in b (b.py:2): 20 % of 20 Python samples",
    ]


@pytest.mark.parametrize(
    ("samples", "loading", "waited", "has_loader", "expected"),
    [
        (20, 10, 0, False, True),
        (20, 9, 9, True, False),
        (4, 4, 0, False, False),
        (4, 4, 5, True, True),
        (0, 0, 4, True, False),
        (0, 0, 9, False, False),
    ],
)
def test_a_host_that_loads_data(
    samples: int, loading: int, waited: int, has_loader: bool, expected: bool
) -> None:
    """By half of five samples or more; with fewer, by waits of a program with a data loader."""
    work = HostWork(
        "Python", samples, loading, idle=10, waits={QUEUE: waited}, has_loader=has_loader
    )
    assert work.is_loading == expected


def test_the_kind_of_a_wait_is_said_from_half_of_the_time_on() -> None:
    work = HostWork(idle=10 * MS, waits={QUEUE: 5 * MS, SLEEP: 4 * MS}, to_device=8 * MS)
    assert work.lines() == [
        "50 % of it the thread waited for a queue, a pipe or another process",
        "80 % of it ends with a copy to the GPU, as a new batch does",
    ]


def test_the_copy_that_ends_a_gap_is_said_from_half_of_the_time_on() -> None:
    line = "50 % of it ends with a large copy from the GPU, as of a result or a checkpoint"
    assert HostWork(idle=10 * MS, to_host=5 * MS, to_device=4 * MS).lines() == [line]


def test_a_stall_has_its_functions_and_waits(tmp_path: Path) -> None:
    """The kernels of a step end some 8 ms after the host begins to load for 20 ms."""

    def load(rank: Rank) -> None:
        start = rank.now
        rank.wait_for("poll", 20_000)
        rank.sample(start, FETCH, TRAIN)

    work = work_of(load, tmp_path)[STALL]
    assert work.kind == "Python"
    assert work.samples == work.loading > 20
    assert work.functions == (("train (train.py:30), in fetch (fetch.py:57)", work.samples),)
    assert work.waits == {QUEUE: pytest.approx(work.idle, rel=0.05)}
    assert work.idle / work.steps == pytest.approx(12 * MS, rel=0.2)
    assert work.is_loading
    assert not work.before_input


def copy_to_host(rank: Rank, size: int) -> None:
    """A copy of `size` bytes into pinned memory."""
    call = rank.call("cudaMemcpyAsync_v3020", 5)
    begin = max(rank.free, rank.now)
    row = (begin, begin + 100, 0, 7, call, rank.process, size, 2, 2, 1)
    rank.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", *row)
    rank.free = begin + 100


@pytest.mark.parametrize(("saves", "expected"), [(False, True), (True, False)])
def test_a_gap_that_ends_with_a_new_batch(saves: bool, expected: bool, tmp_path: Path) -> None:
    """A copy to the GPU after a checkpoint's copy to the host is no batch that came late."""

    def load(rank: Rank) -> None:
        if saves:
            copy_to_host(rank, 1 << 20)
        rank.work(20_000)
        rank.copy(1)

    assert work_of(load, tmp_path)[STALL].before_input == expected


@pytest.mark.parametrize(("size", "expected"), [(1 << 20, True), (4, False)])
def test_a_gap_that_ends_with_a_result(size: int, expected: bool, tmp_path: Path) -> None:
    """A host that prepares the memory for a large result keeps the GPU waiting before the copy."""

    def fetch(rank: Rank) -> None:
        rank.work(20_000)
        copy_to_host(rank, size)

    work = work_of(fetch, tmp_path)[STALL]
    assert (work.to_host == work.idle) == expected


def test_blocking_calls_have_the_functions_that_made_them(tmp_path: Path) -> None:
    def item(rank: Rank) -> None:
        start = rank.now
        rank.item()
        rank.sample(start, ("loss", "/home/me/train.py", 12))

    work = work_of(item, tmp_path)
    ((name, count),) = work[SYNC].functions
    assert (name, count) == ("loss (train.py:12)", work[SYNC].samples)
    assert work[SYNC].steps in (11, 12)
    assert not work[SYNC].waits


def test_a_host_that_runs_ahead_left_no_gap(tmp_path: Path) -> None:
    work = work_of(lambda rank: None, tmp_path)
    assert LAUNCH not in work
    assert STALL not in work
    assert (work[SYNC].samples, work[SYNC].to_device) == (0, 0)
