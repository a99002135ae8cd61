"""The ranges of a thread: NVTX pops the innermost only."""

import pytest
from gpu_profile_marks.nvtx import Attributes
from gpu_profile_marks.ranges import Mark, Ranges, Switch


class Domain:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def make(self, message: str) -> Attributes:
        return Attributes()

    def push(self, address: int) -> None:
        self.calls.append("push")

    def pop(self) -> None:
        self.calls.append("pop")


def test_a_range_that_was_left_open_ends_with_the_one_around_it() -> None:
    ranges, domain = Ranges(), Domain()
    ranges.domain = domain
    mark = Mark("x", None)
    for key in ("outer", "inner", "left open"):
        ranges.push(key, mark)
    assert not ranges.pop("unknown")
    assert ranges.pop("inner")
    assert [key for key, _ in ranges.open] == ["outer"]
    assert domain.calls == ["push"] * 3 + ["pop"] * 2


def test_the_switch_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    switch = Switch()
    switch.on = True
    switch.fail(ValueError("first\nline"))
    switch.fail(ValueError("second"))
    said = capsys.readouterr().err
    assert said == "gpu-profile: marks are off, the job goes on: ValueError: first\n"
