"""compare --format html: one file with both runs, and names of reports as text."""

import json
import re
from pathlib import Path

from tests.invoked import invoke
from tests.unit.analysis.page.test_page import Checked
from tests.unit.analysis.scenarios import Training

EVIL = "</script><script>alert(1)</script>"


def test_both_runs_stand_side_by_side(tmp_path: Path) -> None:
    for name, kernel_us in (("base", 200.0), ("new", 250.0)):
        (tmp_path / name).mkdir()
        training = Training(ranks=2, steps=8, kernel_us=kernel_us, step_range=EVIL)
        training.save(tmp_path / name)
    words = ("compare", "--base", "base", "--new", "new", "--format", "html")
    done = invoke(*words, directory=tmp_path)
    assert done.returncode == 8, done.stderr
    assert done.stdout.startswith("step: regression, +24.")
    assert done.stdout.endswith("comparison.html: one file, open it in a browser\n")
    html = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html
    words_shown = Checked(html).words
    for text in ("base base, new new", "regression", "base 1", "new 1", "gemm"):
        assert text in words_shown
    match = re.search(r'id="timeline-facts">(.*?)</script>', html)
    assert match
    facts = json.loads(match[1])
    assert facts["sides"] == ["base", "new"]
    assert [(rank["rank"], rank["side"]) for rank in facts["ranks"]] == [
        *((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    assert facts["origin"] < 0  # the second step of both is at 0
