"""Steps counted from forwards and optimizer calls."""

import itertools

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
    "evaluation after each step": ("fAffAffA", "A", 3),
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


def test_a_new_optimizer_replaces_those_with_its_parameters() -> None:
    """Each round of a program may make its own: AAA, BBB, CCC are nine steps. Finding the others is
    slow, and done for 20 of them.
    """
    steps, searches = Steps(), list[int]()

    def find_others() -> set[int]:
        searches.append(1)
        return set()

    for optimizer in (1, 2, 3, 1):
        for _ in range(3):
            assert steps.begins_at_forward()
            steps.begin()
            steps.call(optimizer, find_others)
            if optimizer == 1 and len(searches) > 1:
                break
    assert (steps.made(), len(searches)) == (10, 3)
    for optimizer in range(4, 100):
        steps.call(optimizer, find_others)
    assert len(searches) == 20


def test_a_wrapped_optimizer_and_its_wrapper_make_one_step() -> None:
    steps = Steps()
    for _ in range(4):
        assert steps.begins_at_forward()
        steps.begin()
        for optimizer in (1, 2):
            steps.call(optimizer, set)
    assert steps.made() == 4


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


def test_phases_are_timed_by_step() -> None:
    """Each call of the clock is a second later. A phase that was left by an exception begins again,
    or ends with its step; one inside another is a part of it.
    """
    clock = itertools.count()
    steps = Steps(lambda: float(next(clock)))
    assert steps.phases() == {}
    steps.forward.start()  # before the first step
    steps.begin()
    for _ in range(2):  # gradient accumulation
        steps.forward.start()
        steps.forward.stop()
    steps.optimizer.start(7)
    steps.optimizer.start(8)
    steps.optimizer.stop(8)
    steps.optimizer.stop(7)
    steps.call(7, set)
    steps.begin()
    steps.forward.start()  # raised an exception
    steps.forward.start()
    steps.forward.stop()
    steps.optimizer.start(7)
    steps.call(7, set)
    assert steps.phases() == {"forward": [2.0, 1.0], "optimizer": [1.0, 0.0]}
    assert len(steps.times()) == 2
    steps.begin_again()
    assert steps.phases() == {}
