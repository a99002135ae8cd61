"""Steps counted from forwards and optimizer calls."""

import pytest
from gpu_profile_marks.steps import Steps

PROGRAMS = {
    # f: forward of the outermost module; A, B: optimizers; the string is what the program does
    "one optimizer": ("fAfAfA", "A", 3),
    "gradient accumulation": ("fffAfffA", "A", 2),
    "two forwards a step": ("ffAffA", "A", 2),
    "two optimizers at once": ("fABfABfAB", "AB", 3),
    "optimizers in turns (a GAN)": ("fAfBfAfBfAfB", "AB", 3),
    "an optimizer that is never called": ("fAfAfAfA", "AB", 3),
    "one called more often than the other": ("fAfAfAfBfAfAfAfB", "AB", 5),
    "a new optimizer later": ("fAfAfBfBfB", "A", 4),
    "evaluation behind each step": ("fAffAffA", "A", 3),
    "inference": ("ffff", "A", 0),
    "no forward was seen": ("AAA", "A", 0),
}


@pytest.mark.parametrize(("events", "optimizers", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_steps_of(events: str, optimizers: str, expected: int) -> None:
    steps = Steps()
    for event in events:
        if event != "f":
            steps.call(ord(event), lambda: {ord(each) for each in optimizers})
        elif steps.begins_at_forward():
            steps.begin()
    assert steps.made() == expected


def test_the_last_step_ends_at_its_optimizer() -> None:
    clock = iter([0.0, 1.5, 2.0, 3.25, 9.0])
    steps = Steps(lambda: next(clock))
    for _ in range(2):
        assert steps.begins_at_forward()
        steps.begin()
        steps.call(1, set)
    assert steps.times() == [2.0, 1.25]


def test_the_start_of_the_recording_is_in_no_step() -> None:
    clock = iter([0.0, 5.0, 6.0])
    steps = Steps(lambda: next(clock))
    steps.begin()
    steps.leave_out()
    steps.call(1, set)
    assert steps.times() == [1.0]
