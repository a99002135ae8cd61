"""A rank's environment with marks, and what is said of a window that was not reached."""

import json
import os
from pathlib import Path

import pytest
from annotated_env import describe_steps, make_environment_with_marks

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.unit.agent.wrapper import python, wrapper_in


def test_no_level_leaves_the_environment() -> None:
    assert make_environment_with_marks({"A": "1"}, "none", "", Path("x"), ()) == {"A": "1"}


def test_marks_come_before_the_jobs_own_path() -> None:
    env = make_environment_with_marks({"PYTHONPATH": "/mine"}, "modules", "", Path("x"), (), "/s")
    assert env == {
        "PYTHONPATH": f"{AGENT / 'annotate'}{os.pathsep}/mine",
        "GPU_PROFILE_ANNOTATE": "modules",
        "GPU_PROFILE_STEPS_FILE": "x",
        "GPU_PROFILE_STEPS_END": "/s",
    }


@pytest.mark.parametrize(
    ("option", "start"), [("--capture-range=cudaProfilerApi", "cuda"), ("--trace=nvtx", "nvtx")]
)
def test_a_window_of_steps(option: str, start: str) -> None:
    env = make_environment_with_marks(
        {}, "steps", "20:40", Path("/o/rank0.h.steps.json"), (option,)
    )
    assert env["PYTHONPATH"] == str(AGENT / "annotate")
    assert {name: text for name, text in env.items() if "STEPS" in name} == {
        "GPU_PROFILE_STEPS": "20:40",
        "GPU_PROFILE_STEPS_START": start,
        "GPU_PROFILE_STEPS_FILE": "/o/rank0.h.steps.json",
    }


@pytest.mark.parametrize(
    ("options", "traced"),
    [
        (("--trace=cuda,nvtx",), None),
        (("--trace=nvtx", "--trace=cuda,osrt"), "yes"),
        (("-t", "cuda"), "yes"),
        ((), None),
    ],
    ids=["none", "osrt", "unknown", "no nsys"],
)
def test_a_program_knows_whether_nsys_records_its_calls(
    options: tuple[str, ...], traced: str | None
) -> None:
    env = make_environment_with_marks({}, "steps", "", Path("x"), options)
    assert env.get("GPU_PROFILE_CALLS_TRACED") == traced


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (12, "it ended after 12 steps"),
        (20, "it ended after 20 steps"),
        (30, "it ended after 30 steps: steps 20 to 29 are recorded"),
        (40, ""),
        (900, ""),
        (0, "it made no step of PyTorch that could be counted"),
        ("x", "it made no step of PyTorch that could be counted"),
    ],
)
def test_what_is_said_of_a_window(tmp_path: Path, made: object, said: str) -> None:
    file = tmp_path / "rank0.host.steps.json"
    file.write_text(json.dumps({"steps": made}))
    assert describe_steps(file, "20:40") == said


@pytest.mark.further
def test_a_program_without_steps_is_told_of(tmp_path: Path) -> None:
    wrapper = wrapper_in(tmp_path)
    code = "import os; print(os.environ['GPU_PROFILE_ANNOTATE'], os.environ['GPU_PROFILE_STEPS'])"
    done = wrapper.run("--annotate=steps", "--steps=20:40", "--fake=nothing", "--", *python(code))
    assert done.stdout == "steps 20:40\n"
    assert (
        "profile.py: rank 0: nsys wrote no report: --steps 20:40:"
        " it made no step of PyTorch that could be counted" in done.stderr
    )
