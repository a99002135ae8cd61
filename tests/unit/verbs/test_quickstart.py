"""The end of quickstart: the answer of a real GPU, the pages, and what to type next."""

from pathlib import Path

import pytest

from gpu_profile.cli.options.machine import QuickstartOptions
from gpu_profile.verbs.machine import quickstart


@pytest.mark.recorded
def test_without_a_gpu_it_ends_with_a_run_of_an_h200_and_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = QuickstartOptions(set=(f"REPORT_DIR={tmp_path}",))
    page = quickstart.read_example(tmp_path, options)
    quickstart.tell_end(tmp_path, page)
    assert page == tmp_path / quickstart.EXAMPLE_PAGE
    assert "<title>" in page.read_text()
    *answer, sample, example, next_step = capsys.readouterr().out.splitlines()
    assert "invoke diagnose --report tests/data/h200-loader/rank0.sqlite.gz" in answer[1]
    assert any(line.startswith("1. idle: data, ") for line in answer)
    assert sample == f"The sample's run, with its page: {tmp_path}"
    assert str(page) in example
    assert next_step.endswith("your own script: invoke profile --mount ~/code -- python3 train.py")


def test_the_installed_command_has_no_recording_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quickstart, "EXAMPLE", tmp_path / "none")
    assert quickstart.read_example(tmp_path, QuickstartOptions()) is None
    quickstart.tell_end(tmp_path, None)
    assert "H200" not in capsys.readouterr().out
