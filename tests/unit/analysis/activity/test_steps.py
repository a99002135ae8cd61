"""How steps are found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COPY, Activity
from gpu_profile.analysis.activity.load.activities import load_activities
from gpu_profile.analysis.activity.serving.marks import DECODE
from gpu_profile.analysis.activity.steps.common_steps import common_steps, first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.steps import NO_STEPS, Steps
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank, ranks_of

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"


def first(path: Path) -> Activity:
    with Database.open(path) as database:
        return load_activities(database, Scope())[0]


def trained(training: Training, folder: Path) -> Activity:
    return first(training.save(folder))


@pytest.mark.parametrize("name", ["step", "Iteration", "train_step", "ProfilerStep#7", "batch 3"])
def test_a_range_that_says_so(name: str, tmp_path: Path) -> None:
    steps = find_steps(trained(Training(step_range=name), tmp_path))
    assert steps.source.startswith("range ")
    assert len(steps) == 12


def test_a_range_that_is_open_when_the_window_ends(tmp_path: Path) -> None:
    """nsys gives it no end; the steps before it are steps all the same."""
    recording = Training().record()
    rows = recording.rows["NVTX_EVENTS"]
    last = {row[3]: place for place, row in enumerate(rows) if row[5] == "step"}
    for place in last.values():
        rows[place] = (rows[place][0], None, *rows[place][2:])
    steps = find_steps(first(recording.save(tmp_path / "window.sqlite")))
    assert (steps.source, len(steps)) == ("range step", 11)


def test_a_range_without_a_telling_name_that_fills_the_time(tmp_path: Path) -> None:
    steps = find_steps(trained(Training(step_range="gubbins"), tmp_path))
    assert (steps.source, len(steps)) == ("range gubbins", 12)


def test_a_range_of_another_domain_must_say_so(tmp_path: Path) -> None:
    def in_demo(name: str) -> Activity:
        recording = Training(step_range=name).record()
        rows = recording.rows["NVTX_EVENTS"]
        rows[:] = [(*row[:4], 3, *row[5:]) if row[5] == name else row for row in rows]
        rows.append((0, None, 75, rows[0][3], 3, "demo", None, None))
        return first(recording.save(tmp_path / f"{name}.sqlite"))

    assert find_steps(in_demo("step")).source == "range demo:step"
    assert find_steps(in_demo("gubbins")).source.startswith("repetition of ")


def test_an_optimizer_step_is_no_step(tmp_path: Path) -> None:
    def adam(rank: Rank) -> None:
        start = rank.now
        rank.kernel(20, "adam")
        rank.range("optimizer.step", start)

    steps = find_steps(trained(Training(step_range="", after=adam), tmp_path))
    assert steps.source.startswith("repetition of ")


def work_in_range(rank: Rank, name: str, kernels: int) -> None:
    start = rank.now
    for number in range(kernels):
        rank.kernel(200, f"{name}_{number}")
    rank.range(name, start)


def test_a_part_of_a_step_is_no_step(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    for _ in range(12):
        for _ in range(4):  # micro-batches
            work_in_range(rank, "forward", 5)
            work_in_range(rank, "backward", 10)
        work_in_range(rank, "adam", 2)
    steps = find_steps(first(rank.recording.save(tmp_path / "rank0.sqlite")))
    assert steps.source.startswith("repetition of ")
    assert len(steps) == 12


def test_a_forward_pass_alone_is_a_step_of_inference(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    for _ in range(12):
        work_in_range(rank, "forward", 5)
    steps = find_steps(first(rank.recording.save(tmp_path / "rank0.sqlite")))
    assert (steps.source, len(steps)) == ("range forward", 12)


def test_equal_stretches_may_be_parts_of_a_step(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    for _ in range(40):
        rank.kernel(100, "find")
        rank.item()
    steps = find_steps(first(rank.recording.save(tmp_path / "rank0.sqlite")))
    several = "which a step of the program may hold several times"
    assert steps.source == f"repetition of 2 launches, {several}"


def nameless(activity: Activity) -> Activity:
    """The same rank without its NVTX ranges."""
    return replace(activity, ranges=activity.ranges.pick(np.empty(0, np.int64)))


@pytest.mark.parametrize("rank", range(4))
def test_the_repetition_of_the_recorded_run_is_its_ranges(rank: int) -> None:
    activity = first(DATA / f"rank{rank}.sqlite.gz")
    marked, repetition = find_steps(activity), find_steps(nameless(activity))
    assert repetition.source == "repetition of 356 launches"
    assert np.array_equal(repetition.start, marked.start)


def test_kernels_in_no_order_are_no_steps(tmp_path: Path) -> None:
    random = np.random.default_rng(3)

    def any_kernel(rank: Rank) -> None:
        rank.kernel(50, f"kernel_{'abcdefghi'[random.integers(9)]}")

    training = Training(ranks=1, steps=1, step_range="", layers=800, layer=any_kernel)
    steps = find_steps(nameless(trained(replace(training, kernel_us=1), tmp_path)))
    assert len(steps) == 0
    assert steps.why_none


def test_steps_fill_the_time_between_them() -> None:
    steps = find_steps(first(DATA / "rank2.sqlite.gz"))
    assert np.array_equal(steps.end[:-1], steps.start[1:])


def steps_at(*start: int) -> Steps:
    edges = np.array([*start, start[-1] + 100])
    return Steps("range step", edges[:-1], edges[1:], edges[:-1], edges[1:])


@pytest.mark.parametrize(
    ("ranks", "common"),
    [
        ([steps_at(0, 100, 200, 300), steps_at(1, 101, 201, 301)], ((0, 4), (0, 4))),
        ([steps_at(0, 100, 200, 300), steps_at(101, 203, 301)], ((1, 4), (0, 3))),
        ([steps_at(0, 100, 200), steps_at(101, 201, 301)], ((1, 3), (0, 2))),
        ([steps_at(0, 100, 200, 300), NO_STEPS], ((0, 4), (0, 0))),
        ([NO_STEPS, NO_STEPS], ((0, 0), (0, 0))),
        ([steps_at(0, 100, 200), steps_at(9_000, 9_100, 9_200)], ((0, 3), (0, 3))),
    ],
    ids=["same", "one begins later", "shifted", "one without", "none", "other times"],
)
def test_ranks_are_compared_by_the_steps_that_all_recorded(
    ranks: list[Steps], common: tuple[tuple[int, int], ...]
) -> None:
    assert common_steps(ranks) == common


@pytest.mark.parametrize(
    ("times", "dropped"),
    [
        ([10, 10, 10, 10, 10], 1),
        ([90, 40, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10], 2),
        ([10, 10, 10], 0),
        ([40] * 6 + [10] * 6, 3),
        ([90, 10, 10, 80, *[10] * 96], 4),
        ([90, 10, 10, 80, *[10] * 50, 50, *[10] * 45], 1),
        ([90, 10, 10, 10, 10, 10, 10, 80, *[10] * 92], 1),
    ],
)
def test_warm_up(times: list[int], dropped: int) -> None:
    assert first_steady(np.array(times)) == dropped


def numbered(first_step: int, steps: int, path: Path) -> Steps:
    """The steps of a recording that begins with that step of the program."""
    (rank,) = ranks_of(1)
    for number in range(first_step, first_step + steps):
        start = rank.now
        rank.kernel(900)
        rank.work(1000)
        rank.mark("optimizer SGD", rank.now)
        rank.mark("step", start, number)
    return find_steps(first(rank.recording.save(path)))


def test_marked_steps_have_their_numbers(tmp_path: Path) -> None:
    steps = numbered(20, 2, tmp_path / "two.sqlite")
    assert (steps.source, steps.number.tolist()) == ("range gpu-profile:step", [20, 21])


def test_inference_is_not_one_marked_step(tmp_path: Path) -> None:
    """No optimizer ends the first step, whose mark ends with the program: the requests repeat."""
    (rank,) = ranks_of(1)
    begin = rank.now
    for _ in range(30):
        start = rank.now
        for kernel in ("embed", "attention", "mlp", "head"):
            rank.kernel(900, kernel)
        rank.work(1000)
        rank.mark("forward", start)
    rank.mark("step", begin, 0)
    steps = find_steps(first(rank.recording.save(tmp_path / "run.sqlite")))
    assert steps.source.startswith("repetition of 4 launches")
    assert 28 <= len(steps) <= 30


def test_ranks_are_paired_by_the_numbers_of_their_steps(tmp_path: Path) -> None:
    """By time both recordings begin together, as clocks of two hosts may say."""
    early = numbered(20, 8, tmp_path / "early.sqlite")
    late = numbered(22, 8, tmp_path / "late.sqlite")
    # Step 27 is the last that the first rank recorded: its end is not known.
    assert common_steps([early, late]) == ((2, 7), (0, 5))
    assert common_steps([late, early]) == ((0, 5), (2, 7))
    plain = [replace(ranges, number=ranges.number[:0]) for ranges in (early, late)]
    assert common_steps(plain) == ((0, 8), (0, 8))


def test_the_last_iteration_of_an_engine_has_no_known_end(tmp_path: Path) -> None:
    steps = numbered(20, 8, tmp_path / "r.sqlite")
    iterations = replace(steps, number=steps.number[:0], kind=np.full(8, DECODE))
    assert common_steps([iterations, iterations]) == ((0, 7), (0, 7))
    few = replace(iterations, start=steps.start[:3], end=steps.end[:3], kind=np.full(3, DECODE))
    assert common_steps([few]) == ((0, 3),)


def test_a_receive_for_a_step_that_was_not_recorded_is_none_of_the_last_step(
    tmp_path: Path,
) -> None:
    """A pipeline's next message is awaited before the step's range ends; its sender may have ended
    its recording.
    """
    (rank,) = ranks_of(1)
    for number in range(4):
        start = rank.now
        rank.kernel(900)
        rank.work(1000)
        if number == 3:
            rank.kernel(1_000_000, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)")
        rank.mark("optimizer SGD", start)
        rank.mark("step", start, number)
    steps = find_steps(first(rank.recording.save(tmp_path / "run.sqlite")))
    assert max(steps.end - steps.start) < 2_000_000


def test_a_wait_for_the_gpu_after_the_batchs_copy_is_no_work_of_the_host(tmp_path: Path) -> None:
    """The copy from pageable memory waits for what the step before left, such as a late rank."""
    (rank,) = ranks_of(1)
    for _ in range(12):
        rank.work(200)
        rank.copy(0.5)
        rank.synchronize()
        rank.work(300)
        for layer in range(40):
            rank.kernel(200 + layer % 3, f"gemm{layer % 7}")
        rank.work(400)
        rank.kernel(200, "adam")
    activity = first(rank.recording.save(tmp_path / "copies.sqlite"))
    steps = find_steps(activity)
    starts = activity.ops.start[activity.ops.kind == COPY]
    assert np.isin(steps.start, starts).all()
    assert abs(len(steps) - 12) <= 1


def test_an_optimizer_without_foreach_ends_its_step(tmp_path: Path) -> None:
    """It launches kernels for each parameter; the host pauses longest before the first one. The
    window cuts the first step.
    """
    (rank,) = ranks_of(1)
    begins = []
    network = ("randint", "embed", *("norm", "attention", "mlp", "residual") * 8, "head")
    for step in range(20):
        rank.work(300)
        begins.append(rank.now)
        for kernel in network[0 if step else 20 :]:
            rank.kernel(20, kernel)
        rank.work(900)
        for _ in range(12):
            for kernel in ("addcmul_cuda_kernel", "sqrt_kernel_cuda", "addcdiv_cuda_kernel"):
                rank.kernel(10, kernel)
    steps = find_steps(first(rank.recording.save(tmp_path / "adagrad.sqlite")))
    nearest = np.abs(steps.host_start[:, None] - np.array(begins)).min(axis=1)
    assert nearest.max() <= 0.05 * np.median(np.diff(begins))


@pytest.mark.parametrize("waits", [False, True])
def test_calls_before_the_first_launch_are_of_the_step(waits: bool, tmp_path: Path) -> None:
    """JAX sets the parameters of its graphs' nodes, for 8 % of a step, before it launches one. A
    wait for the GPU ends the step before.
    """
    (rank,) = ranks_of(1)
    begins = []
    for _ in range(20):
        rank.work(200)
        begins.append(rank.now)
        for _ in range(20):
            rank.work(1)
            rank.call("cuGraphExecKernelNodeSetParams_v2", 6)
        for kernel in ("embed", "attention", "mlp", "head", "grad", "update"):
            rank.kernel(250, kernel)
        if waits:
            rank.work(300)
            rank.synchronize()
    steps = find_steps(first(rank.recording.save(tmp_path / "jax.sqlite")))
    assert len(steps) >= 18
    far = np.abs(steps.host_start[1:, None] - np.array(begins)).min(axis=1)
    assert far.max() <= 0.03 * np.median(np.diff(steps.start))
