"""Verb open, and html --open: programs with a window, which outlive the verb."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training

Fake = Callable[..., Callable[[], list[list[str]]]]


def _wait(calls: Callable[[], list[list[str]]]) -> list[list[str]]:
    """The calls of a program that was started apart: it may begin after the verb has ended."""
    end = time.monotonic() + 30
    while not calls() and time.monotonic() < end:
        time.sleep(0.01)
    return calls()


def test_open_starts_the_window_with_the_recordings(tmp_path: Path, fake_tool: Fake) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for rank in (0, 1):
        (run / f"rank{rank}.h.nsys-rep").write_bytes(b"recording")
    missing = invoke("open", "--report", str(run), directory=tmp_path)
    assert missing.returncode == 3, missing.stderr
    assert missing.stderr.startswith("error: nsys-ui is not on PATH. Install Nsight Systems on ")
    calls = fake_tool("nsys-ui")
    told = invoke("open", "--report", str(run), "--dry-run", directory=tmp_path)
    assert told.stdout == f"nsys-ui {run}/rank0.h.nsys-rep {run}/rank1.h.nsys-rep\n"
    assert invoke("open", "--report", str(run), directory=tmp_path).returncode == 0
    assert _wait(calls) == [[f"{run}/rank{rank}.h.nsys-rep" for rank in (0, 1)]]
    (tmp_path / "rank0.sqlite").write_bytes(b"export")
    refused = invoke("open", "--report", str(tmp_path / "rank0.sqlite"), directory=tmp_path)
    assert refused.returncode == 6
    assert "rank0.sqlite has no .nsys-rep beside it" in refused.stderr
    assert refused.stderr.count("\n") == 1
    for number in range(20):
        (run / f"rank{number}.h.nsys-rep").write_bytes(b"recording")
    many = invoke("open", "--report", str(run), directory=tmp_path)
    assert (many.returncode, many.stderr.count("\n")) == (2, 1)
    assert "20 reports are too many" in many.stderr


def test_html_shows_its_page_or_says_that_there_is_no_display(
    tmp_path: Path, fake_tool: Fake
) -> None:
    report = Training(ranks=1, steps=4).record().save(tmp_path / "rank0.sqlite")
    words = ("html", "--report", str(report), "--output", str(tmp_path / "p.html"), "--open")
    nowhere = invoke(*words, directory=tmp_path, DISPLAY="", WAYLAND_DISPLAY="", BROWSER="")
    assert nowhere.returncode == 3
    assert nowhere.stderr.startswith("error: there is no display here for --open.")
    assert not (tmp_path / "p.html").exists()
    calls = fake_tool("xdg-open")
    shown = invoke(*words, directory=tmp_path, DISPLAY=":0")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.endswith("p.html: one file, shown in a browser\n")
    assert _wait(calls) == [[str(tmp_path / "p.html")]]
