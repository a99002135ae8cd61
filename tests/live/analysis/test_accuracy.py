"""The published score: predictions on recordings of programs whose fix was measured."""

from bench.causes.judge import list_folders, score
from gpu_profile.settings.places import ROOT

RECORDINGS = ROOT / "tests" / "data" / "causes"
MISSED = set[str]()
"""docs/accuracy.md says why."""


def test_the_score_of_the_recordings_is_the_published_one() -> None:
    scores = [score(folder) for folder in list_folders([str(RECORDINGS)])]
    assert len(scores) == 22
    assert {each.name for each in scores if not each.is_right} == MISSED
    published = (ROOT / "docs" / "accuracy.md").read_text()
    assert [each.name for each in scores if each.to_row() not in published] == []
