"""The file of the steps' times."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_profile_marks.steps import Steps
from gpu_profile_marks.window import make_window


def save(file: Path, *, steps: int) -> None:
    """Save the times of a program that made this many steps."""
    environ = {"GPU_PROFILE_STEPS": "2:4", "GPU_PROFILE_STEPS_FILE": str(file)}
    window, counted = make_window(SimpleNamespace(), environ), Steps()
    assert window is not None
    for _ in range(steps):
        counted.begin()
        counted.call(1, set)
    window.save(counted, now=True)


@pytest.mark.parametrize(("other", "own", "kept"), [(6, 0, 6), (6, 6, 6), (0, 6, 6), (5, 6, 6)])
def test_the_file_is_of_the_process_with_the_most_steps(
    tmp_path: Path, other: int, own: int, kept: int
) -> None:
    """torchrun itself imports torch, makes no step, and ends after its ranks."""
    file = tmp_path / "rank0.node.steps.json"
    save(file, steps=other)
    facts = json.loads(file.read_text()) | {"process": 1}
    file.write_text(json.dumps(facts))
    save(file, steps=own)
    facts = json.loads(file.read_text())
    assert facts["steps"] == len(facts["ms"]) == kept
    assert (facts["process"] == os.getpid()) is (own > other)


def test_a_process_writes_again_of_its_own_steps(tmp_path: Path) -> None:
    file = tmp_path / "rank0.node.steps.json"
    save(file, steps=6)
    save(file, steps=6)
    file.write_text("{damaged")
    save(file, steps=1)
    assert json.loads(file.read_text())["steps"] == 1


def test_the_times_of_steps_are_private(tmp_path: Path) -> None:
    file = tmp_path / "rank0.node.steps.json"
    window = make_window(
        SimpleNamespace(), {"GPU_PROFILE_STEPS": "2:4", "GPU_PROFILE_STEPS_FILE": str(file)}
    )
    assert window is not None
    before = os.umask(0)
    try:
        window.save(Steps(), now=True)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert '"window": [2, 4]' in file.read_text()
    assert list(tmp_path.iterdir()) == [file]
