"""--annotate and --steps: words for profile.py, options of nsys, refusals."""

import pytest
import rank_call

from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, ProfileSpec, parse_steps
from gpu_profile.nsys import options as nsys
from gpu_profile.nsys.help import TYPICAL_HELP
from gpu_profile.nsys.rank_wrapper import rank_arguments


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ProfileSpec(), []),
        (ProfileSpec(annotate="none", steps=(2, 3)), ["--annotate=steps", "--steps=2:3"]),
        (ProfileSpec(annotate="modules"), ["--annotate=modules"]),
        (ProfileSpec(steps=(20, 40)), ["--annotate=steps", "--steps=20:40"]),
        (ProfileSpec(annotate="ops", steps=(0, 1)), ["--annotate=ops", "--steps=0:1"]),
    ],
)
def test_words_for_a_rank(spec: ProfileSpec, words: list[str]) -> None:
    job = Job(name="x", command=("python3", "x.py"), profile=spec)
    arguments = rank_arguments(job, NsysPlan(options=()), output="/out")
    assert [word for word in arguments if word.startswith(("--annotate", "--steps"))] == words


def test_a_program_is_left_as_it_is_in_words_that_images_without_marks_take() -> None:
    """Their profile.py gives each word that it does not know to nsys, which has no --annotate."""
    job = Job(name="x", command=("python3", "x.py"), profile=ProfileSpec(annotate="none"))
    words = rank_arguments(job, NsysPlan(options=("--trace=nvtx",)), output="/out")
    assert words[2:4] == ("--env-var=GPU_PROFILE_ANNOTATE=none", "--trace=nvtx")
    call = rank_call.parse_call(words, "")
    assert (call.options.annotate, list(call.nsys_options)) == ("none", ["--trace=nvtx"])
    again = rank_call.parse_call(call.of_a_rank()[2:], "")
    assert (again.options.annotate, list(again.nsys_options)) == ("none", ["--trace=nvtx"])


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (True, ["--capture-range=cudaProfilerApi"]),
        (False, ["--capture-range=nvtx", "--nvtx-capture=capture@gpu-profile"]),
    ],
)
def test_the_window_of_steps(gpus: bool, expected: list[str]) -> None:
    spec = nsys.step_window(ProfileSpec(steps=(20, 40)), gpus=gpus)
    options = nsys.profile_options(spec, TYPICAL_HELP, gpus=gpus)
    assert [each for each in options if "capture" in each and "end" not in each] == expected
    assert {"--capture-range-end=stop", "--kill=none"} <= set(options)


def test_operators_need_an_nsys_that_has_them() -> None:
    spec = ProfileSpec(annotate="ops")
    assert "--pytorch=autograd-shapes-nvtx" in nsys.profile_options(spec, TYPICAL_HELP)
    with pytest.raises(SettingsError, match="ops is not available: this nsys has no --pytorch"):
        nsys.profile_options(spec, TYPICAL_HELP.replace("--pytorch=", "--python="))


def test_steps() -> None:
    assert parse_steps("") is None
    assert parse_steps("20:40") == (20, 40)


@pytest.mark.parametrize("text", ["20", "40:20", "5:5", "a:b", ":", "-1:4", "1:2:3", "20-40"])
def test_what_is_no_range_of_steps(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a range of steps"):
        parse_steps(text)
