"""Steps by marks and ranges that do not hold all of the work, or hold more than steps."""

from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.modules.module_times import find_steady_kernels
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.activity.test_steps import first
from tests.unit.analysis.synthetic import Rank, ranks_of


def work(rank: Rank, *kernels: str) -> None:
    for kernel in kernels:
        rank.kernel(900, kernel)
        rank.work(900)


def mark(rank: Rank, text: str, *kernels: str) -> None:
    start = rank.now
    rank.work(10)
    work(rank, *kernels)
    rank.mark(text, start)


def train(rank: Rank, kernels: bool = True, passes: int = 1) -> None:
    """Forward and backward, then the optimizer; a capture launches no kernels."""
    for _ in range(passes):
        mark(rank, "forward", *("embed", "mlp", "head")[: 3 * kernels])
        mark(rank, "backward", *("loss_grad", "mlp_grad")[: 2 * kernels])
    mark(rank, "optimizer SGD", *("update",)[:kernels])


def evaluate(rank: Rank, batches: int) -> None:
    for _ in range(batches):
        mark(rank, "forward", "embed", "mlp", "head")
        work(rank, "count_right")


def steps_of(rank: Rank, begins: list[int], path: Path) -> Steps:
    """The steps of a recording whose marked steps begin at these times."""
    for number, (start, end) in enumerate(zip(begins, [*begins[1:], rank.now], strict=True)):
        rank.now = end
        rank.mark("step", start, number)
    return find_steps(first(rank.recording.save(path)))


def autotune(rank: Rank) -> None:
    """Try kernels in no order: more launches than all replays of a graph."""
    for candidate in np.random.default_rng(0).integers(0, 25, 800).tolist():
        rank.kernel(5, f"candidate_{'abcde'[candidate % 5]}{'vwxyz'[candidate // 5]}")


def test_marks_of_a_warm_up_do_not_hide_the_replays_of_a_graph(tmp_path: Path) -> None:
    """Hooks run in the warm-up and the capture only; the last mark ends with the program."""
    (rank,) = ranks_of(1)
    begins = []
    for number in range(5):
        begins.append(rank.now)
        if number == 0:
            autotune(rank)
        train(rank, kernels=number < 4)
    trained = []
    for _ in range(40):
        trained.append(rank.now)
        rank.copy(1)
        rank.graph(4000)
    steps = steps_of(rank, begins, tmp_path / "graph.sqlite")
    assert steps.source.startswith("repetition of 2 launches")
    assert len(steps) == 40
    assert np.abs(steps.host_start - trained).max() <= 0.03 * np.median(np.diff(trained))


def test_a_part_that_is_captured_leaves_the_marked_steps(tmp_path: Path) -> None:
    """As make_graphed_callables() does: the optimizer and the hooks run in each step."""
    (rank,) = ranks_of(1)
    for _ in range(11):
        mark(rank, "forward", "embed", "mlp", "head")  # the warm-up, and the capture
        mark(rank, "backward", "loss_grad", "mlp_grad")
    begins = []
    for _ in range(12):
        begins.append(rank.now)
        for phase in ("forward", "backward"):
            start = rank.now
            rank.graph(2000)
            rank.work(100)
            rank.mark(phase, start)
        mark(rank, "optimizer SGD", "update")
    steps = steps_of(rank, begins, tmp_path / "part.sqlite")
    assert (steps.source, len(steps)) == ("range gpu-profile:step", 12)


def test_captured_inference_has_the_steps_of_its_replays(tmp_path: Path) -> None:
    """The forward passes of the warm-up are marked; no optimizer is."""
    (rank,) = ranks_of(1)
    begin = rank.now
    autotune(rank)
    evaluate(rank, 4)
    for _ in range(40):
        rank.copy(1)
        rank.graph(3000)
        rank.item()
    steps = steps_of(rank, [begin], tmp_path / "inference.sqlite")
    assert steps.source.startswith("repetition of 3 launches")
    assert 39 <= len(steps) <= 40


def look(rank: Rank, turns: int) -> None:
    """A loop over what a model found, each turn of which asks for a value, and some for two."""
    for turn in range(turns):
        work(rank, "compare", "sum")
        rank.item()
        if turn % 7 in (2, 3, 6):
            work(rank, "divide")
            rank.item()


def infer(rank: Rank, least: int, most: int) -> None:
    """20 images with so many masks, each after a forward pass."""
    for turns in np.random.default_rng(0).integers(least, most, 20).tolist():
        mark(rank, "forward", "embed", "mlp", "head")
        look(rank, turns)


def test_a_loop_after_each_forward_pass_is_a_part_of_its_step(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    begin = rank.now
    infer(rank, 60, 80)
    steps = steps_of(rank, [begin], tmp_path / "masks.sqlite")
    assert steps.source == "range gpu-profile:forward and a loop after it"
    passes = first(tmp_path / "masks.sqlite").ranges.called("gpu-profile:forward")
    assert steps.host_start.tolist() == passes.start.tolist()


def test_words_after_the_forward_pass_of_a_prompt_are_steps(tmp_path: Path) -> None:
    """CUDA graphs make the words, without marks."""
    (rank,) = ranks_of(1)
    begin = rank.now
    for words in np.random.default_rng(0).integers(20, 40, 20).tolist():
        mark(rank, "forward", "embed", "mlp", "head")
        for _ in range(words):
            rank.copy(1)
            rank.graph(900)
            rank.item()
    steps = steps_of(rank, [begin], tmp_path / "words.sqlite")
    assert steps.source.startswith("repetition of 3 launches")
    assert len(steps) > 20 * 20


@pytest.mark.parametrize("is_first", [True, False])
def test_passes_of_a_part_of_a_program_begin_no_steps(is_first: bool, tmp_path: Path) -> None:
    """20 marked ones come before 4,000 turns of what has no marks, or after these."""
    (rank,) = ranks_of(1)
    begin = rank.now
    if not is_first:
        look(rank, 4000)
    infer(rank, 60, 80)
    if is_first:
        look(rank, 4000)
    steps = steps_of(rank, [begin], tmp_path / "part.sqlite")
    assert steps.source.startswith("repetition of")
    assert len(steps) > 400


def test_marks_of_steps_hold_against_a_long_evaluation(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    begins = []
    for _ in range(6):
        begins.append(rank.now)
        train(rank)
    begins.append(rank.now)
    evaluate(rank, 60)
    steps = steps_of(rank, begins, tmp_path / "evaluation.sqlite")
    assert (steps.source, len(steps)) == ("range gpu-profile:step", 6)
    assert steps.number.tolist() == [0, 1, 2, 3, 4, 5]


def test_an_optimizer_that_is_compiled_ends_no_marked_step(tmp_path: Path) -> None:
    """Its hooks run in the first step; forward and backward go on to be marked."""
    (rank,) = ranks_of(1)
    begins = [rank.now]
    train(rank)
    begins.append(rank.now)
    for _ in range(30):
        rank.copy(1)
        mark(rank, "forward", "embed", "mlp", "head")
        mark(rank, "backward", "loss_grad", "mlp_grad")
        work(rank, "compiled_update")
    steps = steps_of(rank, begins, tmp_path / "compiled.sqlite")
    assert steps.source.startswith("repetition")
    assert 28 <= len(steps) <= 31


def test_an_evaluation_between_marked_steps_is_in_none(tmp_path: Path) -> None:
    """A step's range begins at the first forward pass, which is one of the evaluation."""
    (rank,) = ranks_of(1)
    begins, trained = [], []
    for number in range(20):
        begins.append(rank.now)
        if number in (0, 9):
            evaluate(rank, 4)
        trained.append(rank.now)
        train(rank, passes=2)
    steps = steps_of(rank, begins, tmp_path / "between.sqlite")
    steady = find_steady_kernels(first(tmp_path / "between.sqlite"))
    assert len(steady) == 11 * 19  # kernels a step, steady steps
    assert steps.host_start.tolist() == trained
    assert steps.number.tolist() == list(range(20))
    with Database.open(tmp_path / "between.sqlite") as database:
        facts = diagnose_reports(database).overview.step
    assert facts is not None
    assert facts.to_text().endswith(":step, without 1 evaluation of 15 ms between the steps")
    length = steps.end - steps.start
    assert np.ptp(length[1:]) <= 0.05 * np.median(length)


def test_an_evaluation_in_every_fifth_step_is_a_part_of_the_loop(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    begins = []
    for number in range(20):
        begins.append(rank.now)
        if number % 5 == 4:
            evaluate(rank, 3)
        train(rank)
    assert steps_of(rank, begins, tmp_path / "often.sqlite").host_start.tolist() == begins


def test_forward_passes_of_changing_number_belong_to_their_steps(tmp_path: Path) -> None:
    """As in reinforcement learning, which plays before it learns."""
    (rank,) = ranks_of(1)
    begins = []
    for number in range(12):
        begins.append(rank.now)
        evaluate(rank, 2 + number % 4)
        train(rank)
    assert steps_of(rank, begins, tmp_path / "play.sqlite").host_start.tolist() == begins


def test_a_step_that_the_scaler_skips_is_a_step(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    begins = []
    for number in range(8):
        begins.append(rank.now)
        if number == 4:
            evaluate(rank, 3)
        if number in (0, 3):
            mark(rank, "forward", "embed", "mlp", "head")
            mark(rank, "backward", "loss_grad", "mlp_grad")
        else:
            train(rank)
    steps = steps_of(rank, begins, tmp_path / "skip.sqlite")
    assert len(steps) == 8
    assert np.all(steps.end > steps.start)


def test_ranges_of_a_compiler_are_no_steps(tmp_path: Path) -> None:
    """XLA names the function that it compiles in the arguments of its ranges; here no GPU works."""
    (rank,) = ranks_of(1)
    for name in ["XlaPass:#name=algsimp,module=jit_train_step#"] * 9 + ["compile_step"] * 9:
        start = rank.now
        rank.work(100)
        rank.range(name, start)
    rank.work(100)
    for _ in range(30):
        rank.copy(1)
        work(rank, "fusion", "fusion_1", "fusion_2")
    steps = find_steps(first(rank.recording.save(tmp_path / "xla.sqlite")))
    assert steps.source.startswith("repetition of 4 launches")
    assert 28 <= len(steps) <= 30


@pytest.mark.parametrize(
    ("passes", "told"),
    [
        (1, "the recording ends in the first step: one backward pass is marked, no optimizer"),
        (2, "2 backward passes are marked, and no optimizer"),
    ],
)
def test_a_recording_that_ends_in_the_first_step_says_so(
    passes: int, told: str, tmp_path: Path
) -> None:
    """It was ended while a compiler tried kernels."""
    (rank,) = ranks_of(1)
    begin = rank.now
    for _ in range(passes):
        mark(rank, "forward", "embed", "mlp", "head")
        mark(rank, "backward", "loss_grad", "mlp_grad")
    for kernel in np.random.default_rng(0).integers(0, 30, 600).tolist():
        rank.kernel(5, f"candidate_{'abcdef'[kernel % 6]}{'uvwxy'[kernel // 6]}")
    steps = steps_of(rank, [begin], tmp_path / "compiling.sqlite")
    assert len(steps) == 0
    assert steps.why_none.endswith(f"; {told}")
