"""Steps in sequences of launches made by code, with the truth beside."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from gpu_profile.analysis.step_search.boundaries import Repetition
from gpu_profile.analysis.step_search.launches import Launches
from gpu_profile.analysis.step_search.search import find_repetition
from tests.further import further

TO_DEVICE, TO_HOST, OPTIMIZER, GRAPH, ALL_REDUCE, TEST = range(6)
LAYER, HEAD, EVALUATION, INIT, TRIED = 100, 200, 300, 400, 500


@dataclass
class Program:
    """Launches one after the other; `begins` holds the true first launch of each step."""

    tokens: list[int] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)

    def step(self, pause_us: int = 500) -> None:
        self.begins.append(len(self.tokens))
        self._pause = pause_us

    def step_pause(self, pause_us: int) -> None:
        self._pause = pause_us

    def launch(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.tokens.append(token)
            self.pauses.append(getattr(self, "_pause", 10))
            self._pause = 10

    def network(self, layers: int = 6) -> None:
        for _ in range(layers):
            self.launch([*range(LAYER, LAYER + 9), LAYER + 2])
        self.launch(range(HEAD, HEAD + 5))
        for _ in range(layers):
            self.launch(range(LAYER + 20, LAYER + 34))

    def launches(self) -> Launches:
        token = np.array(self.tokens, np.int64)
        call_starts = np.cumsum(np.array(self.pauses, np.int64) * 1000)
        kernel = token >= OPTIMIZER
        return Launches(
            token=token,
            kind=token,
            call_starts=call_starts,
            call_ends=call_starts + 4000,
            pause=np.diff(call_starts, prepend=call_starts[:1]) - 4000,
            gpu=np.select(
                [token == GRAPH, token >= TRIED, kernel], [2_000_000, 1_000, 20_000], 1_000
            ),
            graph=token == GRAPH,
            communication=token == ALL_REDUCE,
            to_device=token == TO_DEVICE,
            to_host=token == TO_HOST,
            values=token == TO_HOST,
            optimizer=token == OPTIMIZER,
            multiplies=np.isin(token, (LAYER, EVALUATION)),
            tests=token == TEST,
        )


def plain(program: Program, _number: int) -> None:
    program.step()
    program.launch([TO_DEVICE])
    program.network()
    program.launch([OPTIMIZER] * 4)


def accumulates(program: Program, _number: int) -> None:
    program.step()
    for _ in range(4):
        program.launch([TO_DEVICE])
        program.network()
    program.launch([OPTIMIZER] * 4)


def logs(program: Program, number: int) -> None:
    plain(program, number)
    if number % 10 == 9:
        program.launch([HEAD + 9, TO_HOST, HEAD + 9, TO_HOST])


def evaluates(program: Program, number: int) -> None:
    plain(program, number)
    if number % 10 == 9:
        for _ in range(3):
            program.launch(range(EVALUATION, EVALUATION + 50))
            program.launch([TO_HOST])


def evaluates_for_long(program: Program, number: int) -> None:
    plain(program, number)
    if number % 10 == 9:
        program.launch([*range(EVALUATION, EVALUATION + 50)] * 9)


def evaluates_first(program: Program, number: int) -> None:
    """Step 0 begins with an evaluation too; each evaluation chooses some other kernels."""
    program.step()
    if number % 10 == 0:
        for batch in range(3):
            program.launch(range(EVALUATION, EVALUATION + 50))
            program.launch([HEAD + 60 + number + batch])
    program.launch([TO_DEVICE])
    program.network()
    program.launch([OPTIMIZER] * 4)
    if number % 15 == 14:
        program.launch([TO_HOST] * 30)


def saves_and_evaluates_first(program: Program, number: int) -> None:
    """Step 9, 19, … saves, and then the next one evaluates."""
    evaluates_first(program, number)
    if number % 10 == 9:
        program.launch([TO_HOST] * 30)


def checks_the_evaluation(program: Program, number: int) -> None:
    """Two batches of the evaluation before the first step; later six after every tenth."""
    if number == 0:
        program.launch([*range(EVALUATION, EVALUATION + 50)] * 2)
    plain(program, number)
    if number % 10 == 9:
        program.launch([*range(EVALUATION, EVALUATION + 50)] * 6)


def logs_and_saves_after_zeroing(program: Program, number: int) -> None:
    """Half of the steps are followed by a log, a checkpoint or both; zeroing ends each step."""
    program.step(10)
    program.launch([TO_DEVICE])
    program.network()
    program.launch([OPTIMIZER] * 2 + [HEAD + 50])
    if number % 3 == 2:
        program.launch([HEAD + 9, TO_HOST])
    if number % 4 == 3:
        program.launch([TO_HOST] * 12)


def evaluates_without_a_known_optimizer(program: Program, number: int) -> None:
    program.step()
    program.launch([TO_DEVICE])
    program.network()
    program.launch([HEAD + 40])
    if number % 8 == 7:
        for _ in range(3):
            program.launch([TO_DEVICE, *range(LAYER, LAYER + 18), HEAD, TO_HOST])


def evaluates_with_anchors_inside(program: Program, number: int) -> None:
    """Two batches of an evaluation launch as much as a step, and end as it does."""
    program.step()
    program.launch([TO_DEVICE, *range(LAYER, LAYER + 9), *range(HEAD, HEAD + 9), HEAD + 40])
    if number % 5 == 4:
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 9)] * 2)


def evaluates_with_few_launches(program: Program, number: int) -> None:
    """Two small batches, whose openings differ from that of a step."""
    program.step()
    program.launch([TO_DEVICE, *range(LAYER, LAYER + 6), *range(HEAD, HEAD + 13)])
    if number % 5 == 4:
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 6)] * 2 + [HEAD + 30, *[TO_HOST] * 4])


def evaluates_and_saves(program: Program, number: int) -> None:
    """The second batch and the copies of a checkpoint are 15 launches, a step is 19."""
    program.step()
    program.launch([TO_DEVICE, *range(LAYER, LAYER + 9), *range(HEAD, HEAD + 9)])
    if number % 5 == 4:
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 9)] * 2 + [HEAD + 30, *[TO_HOST] * 4])


def evaluates_a_long_forward_pass(program: Program, number: int) -> None:
    """Two thirds of a step's launches are forward."""
    program.step()
    program.launch([TO_DEVICE, *range(LAYER, LAYER + 24), *range(HEAD, HEAD + 12)])
    if number % 5 == 4:
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 24)] * 2 + [HEAD + 30, *[TO_HOST] * 4])


def saves(program: Program, number: int) -> None:
    plain(program, number)
    if number % 15 == 14:
        program.launch([TO_HOST] * 80)


def routes(program: Program, number: int) -> None:
    program.step()
    program.launch([TO_DEVICE])
    program.network()
    program.launch([HEAD + 30, HEAD + 31] * ((number * 7) % 5))
    program.launch([OPTIMIZER] * 4)


def decodes(program: Program, _number: int) -> None:
    """A token of a model of 40 like layers; no optimizer, and the token is copied out."""
    program.step(20)
    for _ in range(40):
        program.launch(range(LAYER, LAYER + 12))
    program.launch([*range(HEAD, HEAD + 10), TO_HOST])


def replays(program: Program, _number: int) -> None:
    program.step(15)
    program.launch([TO_DEVICE, GRAPH, TO_HOST])


def computes_alone(program: Program, _number: int) -> None:
    """No optimizer and no copies: three like parts after a random input."""
    program.step(12)
    program.launch([HEAD + 20])
    for _ in range(3):
        program.launch(range(LAYER, LAYER + 5))


def accumulates_without_a_known_optimizer(program: Program, _number: int) -> None:
    program.step()
    program.launch([TO_DEVICE])
    for _ in range(2):
        program.network()
    program.launch([HEAD + 40])


def zeroes_gradients_last(program: Program, _number: int) -> None:
    """Behind the optimizer, for 7 % of the step's launches, and before the batch's copy."""
    program.step()
    program.launch([TO_DEVICE])
    program.network()
    program.launch([OPTIMIZER] * 4 + [HEAD + 50] * 10)


def works_before_each_launch(program: Program, _number: int) -> None:
    """The host pauses before each kernel, and not before the copy."""
    program.step(10)
    program.launch([TO_DEVICE])
    for layer in range(30):
        program.step_pause(1000)
        program.launch([LAYER + layer % 7, LAYER + 40 + layer % 3])
    program.launch([OPTIMIZER] * 2)


def fills_before_the_batch(program: Program, _number: int) -> None:
    """Zeroing takes 9 % of the step's time before the batch's copy, and the host never pauses."""
    program.step(10)
    program.launch([TO_DEVICE])
    program.launch([LAYER + layer % 7 for layer in range(18)])
    program.launch([OPTIMIZER, HEAD + 50, HEAD + 51])


def counts_tokens_before_its_body(program: Program, _number: int) -> None:
    """HF Trainer: the copies of four batches, six kernels for each, the callbacks, the step."""
    program.step_pause(300)
    program.launch([TO_DEVICE, TO_DEVICE] * 4)
    program.launch(range(HEAD + 60, HEAD + 84))
    program.step(600)
    program.launch([HEAD + 90])
    for _ in range(4):
        program.network(12)
    program.launch([OPTIMIZER] * 4)


def calls_back_before_its_body(program: Program, number: int) -> None:
    """Lightning with a slow loader: a flag is read, each third batch is late, then callbacks."""
    program.launch([TO_DEVICE, ALL_REDUCE, TO_HOST])
    program.step_pause(9000 if number % 3 == 0 else 900)
    program.launch([TO_DEVICE, TO_DEVICE])
    program.step(700)
    program.network()
    program.step_pause(400)
    program.launch([OPTIMIZER] * 4)


def works_before_its_first_kernel(program: Program, _number: int) -> None:
    """DDP in a plain loop: the model works after the copy, the optimizer longer."""
    program.step(90)
    program.launch([TO_DEVICE])
    program.step_pause(300)
    program.network()
    program.step_pause(400)
    program.launch([OPTIMIZER] * 4)


def waits_after_long_zeroing(program: Program, _number: int) -> None:
    """Zeroing takes 13 % of the step, then the host waits for the batch."""
    program.step(900)
    program.launch([TO_DEVICE])
    program.launch(range(LAYER, LAYER + 15))
    program.launch([OPTIMIZER] * 2 + [HEAD + 50] * 3)


def checks_its_mask(program: Program, _number: int) -> None:
    """FSDP copies sizes to the device in each layer; the forward pass reads a value of its mask."""
    program.step(400)
    program.launch([HEAD + 70, HEAD + 71, TO_DEVICE, *range(HEAD + 72, HEAD + 85), TO_HOST])
    for _ in range(4):
        program.launch([TO_DEVICE])
        program.network(9)
    program.launch([OPTIMIZER] * 4)


def checks_its_positions(program: Program, _number: int) -> None:
    """No batch is copied: the forward pass reads a value 16 launches after the optimizer."""
    program.step(400)
    program.launch([*range(HEAD + 70, HEAD + 85), TO_HOST])
    program.step_pause(500)
    for _ in range(4):
        program.network(9)
    program.launch([OPTIMIZER] * 4)


def reads_in_every_fifth_step(program: Program, number: int) -> None:
    """The host reads a value and works on it at the begin of steps 0, 5, 10."""
    program.step(300)
    if number % 5 == 0:
        program.launch([TO_HOST])
        program.step_pause(9000)
    program.launch([HEAD + 70])
    program.network()
    program.launch([OPTIMIZER] * 4)


PROGRAMS = (
    reads_in_every_fifth_step,
    checks_its_positions,
    checks_its_mask,
    waits_after_long_zeroing,
    counts_tokens_before_its_body,
    calls_back_before_its_body,
    works_before_its_first_kernel,
    fills_before_the_batch,
    works_before_each_launch,
    plain,
    accumulates,
    logs,
    evaluates,
    evaluates_first,
    logs_and_saves_after_zeroing,
    saves_and_evaluates_first,
    checks_the_evaluation,
    evaluates_without_a_known_optimizer,
    evaluates_with_anchors_inside,
    evaluates_with_few_launches,
    evaluates_and_saves,
    evaluates_a_long_forward_pass,
    saves,
    routes,
    decodes,
    replays,
    computes_alone,
    accumulates_without_a_known_optimizer,
    zeroes_gradients_last,
)


def recorded(act: Callable[[Program, int], None], steps: int = 40) -> Program:
    program = Program()
    program.launch(np.random.default_rng(0).integers(INIT, INIT + 6, 300).tolist())
    for number in range(steps):
        act(program, number)
    return program


def steps_of(program: Program) -> Repetition:
    steps = find_repetition(program.launches())
    assert isinstance(steps, Repetition), steps
    return steps


@pytest.mark.parametrize("act", PROGRAMS)
def test_count_and_boundaries(act: Callable[[Program, int], None]) -> None:
    program = recorded(act)
    steps = steps_of(program)
    assert abs(len(steps.first) - 40) <= 1
    right = np.isin(steps.first, program.begins)
    assert right.mean() >= 0.9


@pytest.mark.parametrize("act", PROGRAMS)
@pytest.mark.parametrize("cut", [0.37, further(0.61)])
def test_a_window_that_cuts_steps(act: Callable[[Program, int], None], cut: float) -> None:
    whole = recorded(act)
    low, high = whole.begins[10] + int(cut * 40), whole.begins[31] + int(cut * 25)
    program = Program(
        whole.tokens[low:high], whole.pauses[low:high], [b - low for b in whole.begins if low <= b]
    )
    steps = steps_of(program)
    inside = sum(begin < high - low for begin in program.begins)
    assert abs(len(steps.first) - inside) <= 2
    assert np.isin(steps.first[1:-1], program.begins).mean() >= 0.8


@pytest.mark.parametrize(
    "act",
    [
        evaluates,
        evaluates_first,
        saves_and_evaluates_first,
        checks_the_evaluation,
        evaluates_without_a_known_optimizer,
    ],
)
def test_an_evaluation_belongs_to_the_step_that_the_first_one_tells(
    act: Callable[[Program, int], None],
) -> None:
    program = recorded(act)
    assert steps_of(program).first.tolist() == program.begins


def test_a_window_that_ends_with_a_step_holds_no_begin_of_the_next() -> None:
    """The step has three copies and no known optimizer; its last two copies are no step."""
    program = Program()
    for _ in range(12):
        program.step()
        program.launch([TO_DEVICE] * 3)
        program.network()
        program.launch([HEAD + 40])
    assert steps_of(program).first.tolist() == program.begins


def test_an_evaluation_that_a_window_cuts_is_no_step() -> None:
    """Its two batches of 30 launches come where a step has 65."""
    program = Program()
    for _ in range(12):
        program.step()
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 32), *range(HEAD, HEAD + 32)])
    for _ in range(2):
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 29)])
    assert steps_of(program).first.tolist() == program.begins


def test_a_window_does_not_tell_where_evaluations_belong() -> None:
    """It begins with a step and its evaluation; the first stretch of the search is the next one."""
    whole = recorded(evaluates_for_long)
    low = whole.begins[9]
    program = Program(whole.tokens[low:], whole.pauses[low:], [b - low for b in whole.begins[9:]])
    assert np.isin(steps_of(program).first, program.begins).all()


def test_a_window_that_begins_in_a_checkpoint_does_not_tell_either() -> None:
    whole = recorded(saves)
    low = whole.begins[15] - 40
    program = Program(whole.tokens[low:], whole.pauses[low:], [b - low for b in whole.begins[15:]])
    assert np.isin(steps_of(program).first, program.begins).all()


def test_layers_in_no_order_are_no_steps() -> None:
    program = Program()
    program.launch(np.random.default_rng(5).integers(LAYER, LAYER + 9, 4000).tolist())
    assert isinstance(find_repetition(program.launches()), str)


def test_shapes_that_choose_kernels_by_turns_do_not_join_two_steps() -> None:
    """Every other batch is of an odd length: each sixth launch is of another kernel."""
    program = Program()
    program.launch(np.random.default_rng(0).integers(INIT, INIT + 6, 30).tolist())
    for number in range(40):
        program.step()
        program.launch([HEAD])
        for part in range(LAYER + 1, LAYER + 31, 3):
            program.launch([LAYER] * 3 + [part, part + 1, part + 2 + 50 * (number % 2)])
        program.launch([HEAD + 1, HEAD + 2])
    steps = steps_of(program)
    assert abs(len(steps.first) - 40) <= 1
    assert np.isin(steps.first, program.begins).mean() >= 0.9


@pytest.mark.parametrize(
    ("once", "name"), [(OPTIMIZER, "the optimizer"), (ALL_REDUCE, "a collective")]
)
def test_parts_of_a_step_are_no_steps(once: int, name: str) -> None:
    """A window of two steps of eight micro-batches: what ends a step comes once."""
    program = Program()
    for _ in range(2):
        for _ in range(8):
            program.network()
        program.launch([once])
    assert str(find_repetition(program.launches())).endswith(f"times, but {name} came between")


def test_reads_of_a_loop_after_the_network_are_no_steps() -> None:
    """A search reads each of its 80 beams; the work is in the network before them."""
    program = Program()
    for _ in range(30):
        program.step()
        program.launch([TO_DEVICE])
        program.network()
        program.launch([TRIED, TRIED + 1, TO_HOST] * 80)
    first = steps_of(program).first.tolist()
    assert len(first) >= 28
    assert set(first) <= set(program.begins)


def test_reads_of_a_loop_in_the_rounds_of_a_step_are_no_steps() -> None:
    """Images of tokens are filled in by eight rounds, each of which reads 32 numbers; in the last
    one nothing is masked again. The work is in the network of each round.
    """
    program = Program()
    for number in range(12 * 8):
        program.step()
        program.network()
        program.launch([TRIED, *range(HEAD + 10, HEAD + 17), TRIED, HEAD + 17, HEAD + 18])
        masks = [TRIED + 2, TRIED + 3] if number % 8 < 7 else []
        program.launch([TRIED, TRIED + 1, TO_HOST, *masks] * 32)
    first = steps_of(program).first
    assert len(first) == len(program.begins)
    assert np.isin(first, program.begins).mean() >= 0.85


@pytest.mark.parametrize("last", [OPTIMIZER, HEAD + 40])
def test_a_window_of_four_steps_is_searched_as_a_whole(last: int) -> None:
    """The sample of the search holds two of its steps, and nine micro-batches."""
    program = Program()
    for _ in range(4):
        program.step()
        program.launch([TO_DEVICE])
        for _ in range(4):
            program.network()
        program.launch([ALL_REDUCE, last])
    assert steps_of(program).first.tolist() == program.begins


def test_one_kernel_over_and_over_is_no_step_but_a_graph_is() -> None:
    program = Program()
    program.launch([LAYER] * 50)
    assert isinstance(find_repetition(program.launches()), str)
    program = Program()
    program.launch([GRAPH] * 50)
    assert abs(len(steps_of(program).first) - 50) <= 3


def test_steps_of_one_kernel_begin_after_long_pauses() -> None:
    program = Program()
    for _ in range(30):
        program.step(pause_us=30_000)
        program.launch([LAYER] * 200)
    first = steps_of(program).first.tolist()
    assert first == program.begins[1 : 1 + len(first)]
    assert len(first) >= 28


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_too_few_launches_say_why(count: int) -> None:
    program = Program()
    program.launch(range(count))
    assert isinstance(find_repetition(program.launches()), str)


def test_replays_of_a_graph_after_a_warm_up_are_the_steps() -> None:
    """An autotuner and four steps launch more than 60 replays of a graph with the whole step."""
    program = Program()
    program.launch(np.random.default_rng(0).integers(INIT, INIT + 20, 900).tolist())
    for _ in range(4):
        program.network()
        program.launch([OPTIMIZER] * 3)
    for _ in range(60):
        program.step()
        program.launch([TO_DEVICE, HEAD + 50, HEAD + 51, GRAPH])
    assert abs(len(steps_of(program).first) - 60) <= 1
    assert np.isin(steps_of(program).first, program.begins).mean() >= 0.9


@pytest.mark.parametrize("is_in_order", [True, False])
def test_replays_are_the_steps_where_an_autotuner_does_more_work(is_in_order: bool) -> None:
    """XLA tries kernels for 160 ms, and the step is one graph, replayed 40 times for 80 ms."""
    program = Program()
    tried = np.arange(8_000) % 16
    if not is_in_order:
        tried = np.random.default_rng(0).integers(0, 60, 8_000)
    program.launch((INIT + tried).tolist())
    for _ in range(40):
        program.step()
        program.launch([GRAPH])
    assert len(steps_of(program).first) == 40
    assert steps_of(program).first[0] == program.begins[0]


def test_replays_that_begin_with_kernels_beside_the_graph_are_steps() -> None:
    """JAX compiles and tries kernels, and launches more of them beside the first three replays."""
    program = Program()
    tried = [TRIED, TRIED + 1, TRIED + 2, TRIED + 3]
    program.launch(tried * 300)
    for number in range(60):
        program.step(5000)
        program.launch(tried * (12, 12, 6)[number] if number < 3 else [])
        program.launch([GRAPH, TO_HOST])
    first = steps_of(program).first
    assert len(first) == 60
    assert np.isin(first, program.begins).sum() >= 57


def test_graphs_of_a_long_evaluation_do_not_hide_the_layers_of_a_window() -> None:
    """Seven replays after the last optimizer can be the layers of one step."""
    program = Program()
    for _ in range(2):
        program.launch([GRAPH, HEAD + 1] * 7)
        program.launch([OPTIMIZER])
    program.launch([GRAPH, HEAD + 1] * 7)
    assert isinstance(find_repetition(program.launches()), str)


def test_constants_that_a_compiler_copies_are_no_steps() -> None:
    """The program ends after its first step."""
    program, draw = Program(), np.random.default_rng(0)
    program.launch([TO_DEVICE, HEAD] * 16)
    for tried in draw.integers(TRIED, TRIED + 60, 400).tolist():
        program.launch([TEST, tried, TEST, *[tried] * int(draw.integers(3))])
    program.launch([TO_DEVICE, GRAPH, TO_HOST])
    assert isinstance(find_repetition(program.launches()), str)


def test_copies_of_a_checkpoint_are_not_most_of_the_launches() -> None:
    """A step is one graph, and a checkpoint in each tenth of them copies 18 arrays."""
    program = Program()
    program.launch(range(INIT, INIT + 80))
    for number in range(48):
        program.step()
        program.launch([TO_DEVICE, GRAPH])
        program.launch([TO_HOST] * 18 if number % 10 == 9 else [])
    assert abs(len(steps_of(program).first) - 48) <= 1


def test_few_launches_a_step_after_an_autotuner() -> None:
    """XLA fuses a step into 20 launches, and may try 5000 small kernels before."""
    program = Program()
    program.launch(np.random.default_rng(0).integers(TRIED, TRIED + 60, 5000).tolist())
    for _ in range(50):
        program.step()
        program.launch([TO_DEVICE, *range(LAYER, LAYER + 19)])
    assert abs(len(steps_of(program).first) - 50) <= 1
    assert np.isin(steps_of(program).first, program.begins).mean() >= 0.9


@pytest.mark.parametrize("work", [INIT, further(TRIED)])
def test_few_steps_with_an_optimizer_after_an_autotuner(work: int) -> None:
    """torch.compile tried 50,000 kernels before 36 steps of 228 launches, within the first step."""
    program = Program()
    program.step()
    program.launch(np.random.default_rng(0).integers(work, work + 60, 50_000).tolist())
    program.launch([OPTIMIZER] * 2)
    for _ in range(36):
        program.step()
        program.launch([TO_DEVICE])
        program.network()
        program.launch([OPTIMIZER] * 2)
    assert abs(len(steps_of(program).first) - 36) <= 2
    assert np.isin(steps_of(program).first, program.begins).mean() >= 0.9


def test_an_evaluation_after_a_training_in_no_order_is_not_the_steps() -> None:
    program = Program()
    program.launch(np.random.default_rng(0).integers(INIT, INIT + 60, 5000).tolist())
    for _ in range(30):
        program.launch([TO_DEVICE, *range(EVALUATION, EVALUATION + 19)])
    assert isinstance(find_repetition(program.launches()), str)


def test_a_value_that_start_up_reads_long_before_does_not_move_logs_into_the_next_step() -> None:
    program = Program()
    program.launch([*range(INIT, INIT + 300), TO_HOST])
    for number in range(40):
        program.step(300 if number else 900_000)
        program.launch([HEAD + 70])
        program.network()
        program.launch([OPTIMIZER] * 4)
        if number % 5 == 4:
            program.launch([TO_HOST])
    assert np.isin(steps_of(program).first, program.begins).all()


def test_an_evaluation_between_two_steps_is_in_none() -> None:
    program = recorded(evaluates)
    ends = [begin for number, begin in enumerate(program.begins) if number and number % 10 == 0]
    evaluation = 3 * 51  # launches
    assert steps_of(program).pauses.tolist() == [end - evaluation for end in ends]


@pytest.mark.parametrize("act", [logs, saves, evaluates_first, plain])
def test_logs_and_checkpoints_are_of_the_steps(act: Callable[[Program, int], None]) -> None:
    """So is an evaluation that begins the first step, too."""
    assert not len(steps_of(recorded(act)).pauses)


def test_what_comes_between_many_steps_is_a_part_of_the_loop() -> None:
    def act(program: Program, number: int) -> None:
        evaluates(program, 2 * number + 1)

    assert not len(steps_of(recorded(act)).pauses)
