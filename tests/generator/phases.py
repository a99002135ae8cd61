"""What a training loop does beside its steps: evaluations and saved weights."""

from typing import TYPE_CHECKING

from tests.generator.program import Program
from tests.unit.analysis.synthetic import STREAM, US, Rank

if TYPE_CHECKING:
    from tests.generator.simulate import Machine

BATCHES = 2
SAVED_SHARE = 0.02  # of the run's time


def evaluates(program: Program, step: int, *, first: bool) -> bool:
    """Whether the loop evaluates in this step, before (`first`) or after the step's own work."""
    every = program.phases.evaluate_every
    if not every or program.phases.evaluates_first != first:
        return False
    return step % every == (0 if first else every - 1)


def evaluate(machine: "Machine", rank: Rank) -> None:
    """Forward passes of some batches, whose mean loss is read."""
    program = machine.program
    for _ in range(BATCHES):
        rank.work(10)
        rank.copy(0.5)
        for _ in range(program.layers):
            for name, time in program.forward:
                machine.kernel(rank, name, time)
    rank.kernel(3, "void at::native::reduce_kernel<512, 1, at::native::MeanOps<float>>(T3)")
    rank.item()


def save_weights(machine: "Machine", rank: Rank) -> None:
    """Copy the weights to pageable memory, a tensor of each layer after the other."""
    program = machine.program
    time = SAVED_SHARE * program.phases.save_every * program.step_us / program.layers
    for _ in range(program.layers):
        start_of_call = rank.now
        start = max(rank.free + US, start_of_call + 4 * US)
        rank.free = start + int(time * US)
        call = rank.call("cudaMemcpyAsync_v3020", (rank.free - start_of_call) / US)
        place = (rank.rank, STREAM, call, rank.process, int(time * 5000), 2, 2, 0)
        rank.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, rank.free, *place)
