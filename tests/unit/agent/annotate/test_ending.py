"""The end of a recording by default: which step it is, and how the program waits for it."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_profile_marks.ending import (
    CHOSEN_AGAIN_AT,
    DECIDED_AT,
    FEWER_STEPS,
    STEPS,
    Ending,
    choose_end,
)
from gpu_profile_marks.ending import choose_for_all as choose
from gpu_profile_marks.steps import Steps

from tests.unit.agent.annotate.test_failures import run

TORCH: Any = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))


class Clock:
    """Seconds that pass by a number for each step."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make_steps(ending: Ending, step_s: float, until: int) -> tuple[Steps, list[int]]:
    """Make steps; return them, and those at whose beginning the recording ended."""
    clock, ends = Clock(), []
    steps = Steps(clock)
    for _ in range(until):
        number = steps.begin()
        if ending.turn(number, steps):
            ends.append(number)
        clock.now += step_s
        steps.call(1, set)
    return steps, ends


class Listener:
    """Stands for profile.py: answers `end N` by these letters, each once it is told to."""

    def __init__(self, address: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(address))
        self.socket.listen()
        self.line: socket.socket | None = None
        self.request = b""

    def answer(self, letters: bytes) -> threading.Thread:
        def serve() -> None:
            self.line, _ = self.socket.accept()
            self.request = self.line.recv(64)
            if letters:
                self.line.sendall(letters)
            else:
                self.line.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(tmp_path / "end")
    yield listener
    listener.socket.close()
    if listener.line is not None:
        listener.line.close()


@pytest.mark.parametrize(
    ("step_s", "count"),
    [
        *((0.2, STEPS), (0.125, STEPS), (0.1, 120), (0.02, 480), (1e-9, STEPS << 15)),
        *((5.0, STEPS), (5.1, FEWER_STEPS)),
    ],
)
def test_steady_steps_take_five_seconds_and_all_five_minutes(step_s: float, count: int) -> None:
    assert choose_end([step_s] * 9 + [60.0]) == count


def test_the_first_rank_chooses_for_all(tmp_path: Path) -> None:
    choice = tmp_path / "last-step.json"
    assert [choose(choice, [0.1]), choose(choice, [9.0])] == [120, 120]
    assert list(tmp_path.iterdir()) == [choice]
    choice.write_text("{damaged")
    assert choose(choice, [9.0]) == FEWER_STEPS
    assert choose(tmp_path / "absent" / "last-step.json", [0.2]) == STEPS


def test_the_program_waits_for_the_end_and_knows_when_the_report_is_there(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rank0.node.steps.json"
    ending = Ending(TORCH, str(file), str(tmp_path / "end"))
    calls: list[str] = []
    monkeypatch.setattr("gpu_profile_marks.ending.AT_END", [lambda: calls.append("stopped")])
    thread = listener.answer(b"s")
    steps, ends = make_steps(ending, 0.2, STEPS + 3)
    thread.join()
    assert (ends, listener.request) == ([STEPS], b"end step %d\n" % (STEPS - 1))
    assert calls == ["stopped"]
    assert listener.line is not None
    listener.line.sendall(b"w")
    ending.turn(STEPS + 3, steps)
    ending.save(steps, now=True)
    facts = json.loads(file.read_text())
    assert (facts["recorded"], facts["control"]) == ([0, STEPS], STEPS + 3)
    assert (len(facts["ms"]), facts["process"]) == (STEPS + 3, os.getpid())


@pytest.mark.parametrize(("slow_s", "end"), [(1.5, STEPS), (0.5, 120), (0.01, 480)])
def test_slow_steps_between_many_short_ones_take_their_part_of_the_five_seconds(
    tmp_path: Path, listener: Listener, slow_s: float, end: int
) -> None:
    """Each tenth step is slow, others take 12 ms. All ranks read the second choice, too."""
    for _rank in range(2):
        ending = Ending(TORCH, str(tmp_path / "rank0.node.steps.json"), str(tmp_path / "end"))
        clock = Clock()
        steps = Steps(clock)
        for count in range(CHOSEN_AGAIN_AT + 1):
            ending.turn(steps.begin(), steps)
            clock.now += 0.012 if count % 10 else slow_s
            steps.call(1, set)
        assert ending.end == end
        slow_s = 0.012


@pytest.mark.parametrize("letters", [b"f", b""], ids=["refused", "gone"])
def test_a_recording_that_cannot_be_ended_goes_on(
    tmp_path: Path, listener: Listener, letters: bytes
) -> None:
    file = tmp_path / "rank0.node.steps.json"
    ending = Ending(TORCH, str(file), str(tmp_path / "end"))
    thread = listener.answer(letters)
    steps, _ = make_steps(ending, 0.2, STEPS + 3)
    thread.join()
    ending.save(steps, now=True)
    facts = json.loads(file.read_text())
    assert (facts["recorded"], facts["control"]) == ([0, STEPS + 3], None)


def test_without_an_address_all_steps_are_timed_and_recorded(tmp_path: Path) -> None:
    file = tmp_path / "rank0.node.steps.json"
    ending = Ending(TORCH, str(file), "")
    steps, ends = make_steps(ending, 0.2, DECIDED_AT + STEPS)
    ending.save(steps, now=True)
    assert (ends, json.loads(file.read_text())["recorded"]) == ([], [0, DECIDED_AT + STEPS])
    assert list(tmp_path.iterdir()) == [file]


MODULES = """
import torch
class Net(torch.nn.Module):
    def forward(self): return self._modules["inner"]()
model, optimizer = Net(), torch.optim.Optimizer()
model.add_module("inner", torch.nn.Module())
for _ in range(20): model(); torch.autograd.backward(); optimizer.step()
"""


def test_after_the_end_modules_have_no_marks(
    site: Path, tool: Path, tmp_path: Path, listener: Listener
) -> None:
    """They would slow the control. Steps go on, by the outermost forward."""
    file = site / "rank0.n.steps.json"
    file.with_name("last-step.json").write_text('{"steps": 16}')
    thread = listener.answer(b"sw")
    more = {"GPU_PROFILE_STEPS_FILE": str(file), "GPU_PROFILE_STEPS_END": str(tmp_path / "end")}
    done = run(site, tool, MODULES, GPU_PROFILE_ANNOTATE="modules", **more)
    thread.join()
    assert (done.stdout, done.stderr) == ("went on\n", "")
    facts = json.loads(file.read_text())
    assert (facts["steps"], facts["recorded"], facts["control"]) == (20, [0, 16], 17)
    log = (site / "log").read_text().split("\n")
    pushed = [line[5:].partition("|")[0] for line in log if line.startswith("push")]
    assert log.count("pop gpu-profile") == len(pushed)
    assert (pushed.count("step"), pushed.count("forward")) == (20, 20)
    assert sum(" " in name and name.startswith("forward") for name in pushed) == 16 * 2 + 1
