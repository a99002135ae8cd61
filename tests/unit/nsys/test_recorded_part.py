"""What is said of the part of a program that a recording will hold."""

import pytest
from gpu_profile_marks import ending

from gpu_profile.job import ProfileSpec
from gpu_profile.nsys import recorded_part
from gpu_profile.nsys.recorded_part import describe_recorded_part


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        (ProfileSpec(steps=(20, 40), capture_range="nvtx"), "steps 20 to 39"),
        (ProfileSpec(capture_range="nvtx"), ""),
        (ProfileSpec(duration_s=3), ""),
        (ProfileSpec(delay_s=3), ""),
        (ProfileSpec(record="manual"), "nothing until `invoke record` asks for a window"),
        (
            ProfileSpec(record="endpoint"),
            "nothing until the server gets /start_profile, as from `invoke record --url`",
        ),
        (ProfileSpec(whole=True), "the program to its end"),
        (ProfileSpec(annotate="none"), "the program to its end"),
    ],
)
def test_windows_and_whole_programs(spec: ProfileSpec, part: str) -> None:
    assert describe_recorded_part(spec) == part


def test_the_numbers_are_those_of_the_marks() -> None:
    assert describe_recorded_part(ProfileSpec()).startswith("60 steps of a program with marks")
    told = recorded_part.STEPS, recorded_part.FEWER_STEPS, recorded_part.STEADY_S
    assert told == (ending.STEPS, ending.FEWER_STEPS, ending.STEADY_S)
