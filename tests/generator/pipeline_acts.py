"""What the stages of a synthetic pipeline do in a step: GPipe's schedule and Megatron's 1F1B."""

from collections.abc import Callable

from tests.generator.parallel import ParallelProgram

Act = tuple[str, int]
"""("forward", 0), ("backward", 0), or ("exchange", peer stage) with what is sent and received."""


def list_acts(program: ParallelProgram, stage: int) -> list[Act]:
    """What a stage does in a step, in order."""
    return (_schedule_1f1b if program.interleaved else _schedule_gpipe)(program, stage)


def _edges(program: ParallelProgram, stage: int) -> tuple[Callable[[str], list[Act]], ...]:
    """How a stage talks to the one before and to the next one; the ends talk to nobody."""

    def before(what: str) -> list[Act]:
        return [(what, stage - 1)] if stage else []

    def after(what: str) -> list[Act]:
        return [(what, stage + 1)] if stage < program.shape[0] - 1 else []

    return before, after


def _schedule_gpipe(program: ParallelProgram, stage: int) -> list[Act]:
    before, after = _edges(program, stage)
    forward = [*before("receive"), ("forward", 0), *after("send")]
    backward = [*after("receive"), ("backward", 0), *before("send")]
    return forward * program.microbatches + backward * program.microbatches


def _schedule_1f1b(program: ParallelProgram, stage: int) -> list[Act]:
    """Megatron's: the exchanges of the steady part send and receive in one kernel."""
    before, after = _edges(program, stage)
    warm = min(program.shape[0] - 1 - stage, program.microbatches)
    steady = program.microbatches - warm
    acts = [*before("receive"), ("forward", 0), *after("send")] * warm
    acts += before("receive") if steady else []
    for number in range(steady):
        acts += [("forward", 0), *after("both"), ("backward", 0)]
        acts += before("both" if number < steady - 1 else "send")
    return acts + [*after("receive"), ("backward", 0), *before("send")] * warm
