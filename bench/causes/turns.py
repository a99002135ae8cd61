"""Run one program with its cause and with its fix in turns, or one of the two alone.

    python3 bench/causes/turns.py NAME turns       prints the times of blocks as JSON
    python3 bench/causes/turns.py NAME planted     runs with the cause, to be recorded
    python3 bench/causes/turns.py NAME fixed       runs with the fix, to be recorded
    python3 bench/causes/turns.py NAME user        runs with the cause for TURNS_USER seconds (24)

NAME is a module of programs/ with `run(turns)`, a loop `while turns.step(): ...` in which
`turns.planted` says whether the cause is on. Where TURNS_LOCK names a file, a program has the GPU
to itself from its imports on, and others that start beside it wait; TURNS_HELD ends a program that
holds the GPU for so many seconds. A program with a line `RANKS = 2` is started once for each rank,
with torchrun's variables; the first rank decides for all, and prints. TURNS_SECONDS is the length
of a block (0.6), TURNS_ROUNDS the number of rounds of four blocks (2), TURNS_RECORDED the number of
timed steps of a run that is recorded (40).
"""

import contextlib
import fcntl
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The order cancels a drift of the machine's speed that is linear in time.
BLOCKS = (True, False, False, True)
BLOCK_SECONDS = 0.6
ROUNDS = 2
# Steps of a block before its clock starts: queues of the other variant's loaders run empty.
SETTLE_STEPS = 6
WARM_STEPS = 8
LEAST_STEPS = 6
RECORDED_STEPS = 40
USER_SECONDS = 24.0


def _do_nothing() -> None:
    pass


def _keep(milliseconds: float) -> float:
    return milliseconds


@dataclass
class Turns:
    """The state of a program's loop.

    `planted`: whether the cause is on in the present step. `blocks`: (planted, ms a step) of each
    block that ended. `synchronize` waits for all work of the GPU, of all ranks; `agree` returns the
    first rank's value to each. `period`: a cause comes in each n-th step, so blocks are multiples
    of n.
    """

    mode: str
    block_seconds: float = BLOCK_SECONDS
    recorded_steps: int = RECORDED_STEPS
    rounds: int = ROUNDS
    user_seconds: float = USER_SECONDS
    synchronize: Callable[[], None] = _do_nothing
    agree: Callable[[float], float] = _keep
    planted: bool = True
    period: int = 1
    blocks: list[tuple[bool, float]] = field(default_factory=list)
    made: int = 0
    _spans: list[tuple[int, int]] = field(default_factory=list)
    _schedule: list[tuple[bool, int, bool]] = field(default_factory=list)
    _left: int = 0
    _steps: int = 0
    _timed: bool = False
    _start: float = 0.0

    def step(self) -> bool:
        """Begin the next step; False when the program ends."""
        if self._left == 0 and not self._next_part():
            return False
        self._left -= 1
        self.made += 1
        return True

    def _next_part(self) -> bool:
        self._end_part()
        if not self._schedule and not self._plan():
            return False
        self.planted, self._left, self._timed = self._schedule.pop(0)
        self._steps = self._left
        self._start = time.perf_counter()
        return True

    def _end_part(self) -> None:
        self.synchronize()
        if self._timed:
            elapsed = time.perf_counter() - self._start
            self.blocks.append((self.planted, 1000 * elapsed / self._steps))
            self._spans.append((self.made - self._steps, self.made))

    def _plan(self) -> bool:
        """Fill the schedule: first the warm-up, then, from its step times, the blocks."""
        if self.mode == "user":
            # What the first steps compile takes no time of the run: JAX took 8 of its 7 s.
            self._schedule = [(True, WARM_STEPS, False), (True, WARM_STEPS, True)]
            if self.blocks:
                self._schedule = [(True, self._count_steps(True, self.user_seconds), True)]
            return len(self.blocks) < 2
        if self.mode != "turns":
            planted = self.mode == "planted"
            self._schedule = [(planted, WARM_STEPS, False), (planted, self.recorded_steps, True)]
            return not self.blocks
        if not self.blocks:
            self._schedule = [(True, WARM_STEPS, False), (False, WARM_STEPS, False)]
            self._schedule += [(True, WARM_STEPS, True), (False, WARM_STEPS, True)]
            return True
        if len(self.blocks) > 2:
            return False
        for planted in self.rounds * BLOCKS:
            steps = self._count_steps(planted, self.block_seconds)
            steps += -steps % self.period
            self._schedule += [(planted, SETTLE_STEPS, False), (planted, steps, True)]
        return True

    def _count_steps(self, planted: bool, seconds: float) -> int:
        """How many steps take so long, by the first block of their kind."""
        milliseconds = next(ms for was_planted, ms in self.blocks if was_planted == planted)
        return max(LEAST_STEPS, round(1000 * seconds / self.agree(milliseconds)))

    def as_json(self) -> str:
        """The blocks without the two of the warm-up: {"planted": [ms], "fixed": [ms]}.

        `steps` are the first and the end of those with the cause, of all that were `made`.
        """
        skipped = 2 if self.mode == "turns" else 0
        blocks, spans = self.blocks[skipped:], self._spans[skipped:]
        return json.dumps(
            {
                "planted": [round(ms, 4) for planted, ms in blocks if planted],
                "fixed": [round(ms, 4) for planted, ms in blocks if not planted],
                "steps": [
                    span for (planted, _), span in zip(blocks, spans, strict=True) if planted
                ],
                "made": self.made,
            }
        )


def _is_first_rank() -> bool:
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def _own_gpu() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        path = os.environ.get("TURNS_LOCK")
        if path and _is_first_rank():
            lock = stack.enter_context(Path(path).open("a", encoding="utf-8"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            signal.alarm(int(os.environ.get("TURNS_HELD", "0")))
        yield


def main() -> None:
    """Run the program that the command line names."""
    name, mode = sys.argv[1:3]
    sys.path.insert(0, str(Path(__file__).parent / "programs"))
    turns = Turns(
        mode,
        float(os.environ.get("TURNS_SECONDS", BLOCK_SECONDS)),
        int(os.environ.get("TURNS_RECORDED", RECORDED_STEPS)),
        int(os.environ.get("TURNS_ROUNDS", ROUNDS)),
        float(os.environ.get("TURNS_USER", USER_SECONDS)),
    )
    program = importlib.import_module(name)
    with _own_gpu():
        program.run(turns)
    if _is_first_rank():
        print(turns.as_json(), flush=True)


if __name__ == "__main__":
    main()
