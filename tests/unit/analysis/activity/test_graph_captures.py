"""The calls of captures, by hand."""

import numpy as np

from gpu_profile.analysis.activity.graph_captures import find_capture_calls


def find(threads: str, calls: str) -> list[tuple[int, int]]:
    """`calls`: an `L` launches, an `I` instantiates a graph."""
    thread = np.array([*map(int, threads)], np.int8)
    kinds = np.array([*calls])
    first, last = find_capture_calls(thread, kinds == "L", kinds == "I")
    return list(zip(first.tolist(), last.tolist(), strict=True))


def test_a_capture_goes_from_launch_to_launch() -> None:
    assert find("000000", "L.I.LL") == [(1, 4)]


def test_two_instantiations_without_a_launch_between_are_one_capture() -> None:
    assert find("0000000", "LIILLIL") == [(1, 3), (5, 6)]


def test_a_capture_without_launches_ends_with_its_thread() -> None:
    assert find("00011122", "L..I..L.") == [(3, 5)]


def test_no_call_is_no_capture() -> None:
    assert find("", "") == []
