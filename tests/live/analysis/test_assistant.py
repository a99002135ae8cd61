"""An assistant's questions about recordings of programs with a planted cause."""

import json
from pathlib import Path

import pytest

from bench.causes.causes import find_causes
from gpu_profile.settings.places import ROOT
from gpu_profile.verbs.assistant.answers import Answers

RECORDINGS = ROOT / "tests" / "data" / "causes"


@pytest.mark.parametrize(
    ("name", "gain_ms"),
    [
        ("gnn_sampling", 36.7),
        ("metrics_fifth", 16.9),
        ("prefetch_stream", 16.6),
        ("recommender", 55.3),
        ("unet_pageable", 7.2),
    ],
)
def test_one_answer_holds_rank_cause_and_ms(name: str, gain_ms: float) -> None:
    """`gain_ms` is the difference of the medians in turns.json: what the fix gained, measured.

    The recordings have no control, so a cost may be off by 25 %. That of the recommender, whose
    embeddings are on the CPU, is the pauses of the host and the copies.
    """
    report = RECORDINGS / name / "planted.sqlite.gz"
    answer = json.loads(Answers(report_dir=Path(), given=(str(report),)).diagnose("given"))
    first = answer["findings"][0]
    causes = find_causes(name) or ()
    assert first["kind"] in causes
    assert first["ranks"] == [0]
    costs = [each["ms_per_step"] for each in answer["findings"] if each["kind"] in causes]
    assert sum(costs) == pytest.approx(gain_ms, rel=0.25)
    assert answer["unit"] == "ms a step of an affected rank"
