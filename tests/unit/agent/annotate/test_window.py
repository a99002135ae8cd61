"""The file of the steps' times."""

import os
from pathlib import Path
from types import SimpleNamespace

from gpu_profile_marks.steps import Steps
from gpu_profile_marks.window import make_window


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
