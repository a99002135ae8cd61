"""Attention by single kernels as a finding."""

from pathlib import Path

import pytest

from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.replay.test_fused_attention import MASK, PRODUCT, SOFTMAX
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def attend(rank: Rank) -> None:
    for name, us in (PRODUCT, MASK, SOFTMAX, PRODUCT):
        rank.kernel(us, name)


def test_a_softmax_between_products_is_told_with_what_a_fused_kernel_gains(tmp_path: Path) -> None:
    (finding,) = judged(Training(ranks=1, layers=4, layer=attend).record(), tmp_path)
    assert (finding.kind, finding.ranks, finding.cause) == ("unfused_attention", (0,), "scores")
    assert finding.range_ms is not None
    # 4 layers: 1.3 ms between the products, which take 0.3 ms: 60 % are left, or 30 to 130 %.
    gains = [finding.replayed_ms, *finding.range_ms]
    assert gains == pytest.approx([5.68, 4.84, 6.04], abs=0.02)
    line = "5.20 of 7.42 ms a step in softmax, masks and other work on attention scores in memory"
    assert line in finding.evidence[0]
    assert "60 % (30 to 130 %) of the products' time are left" in finding.evidence[1]


def test_attention_that_is_less_than_3_percent_is_not_told(tmp_path: Path) -> None:
    training = Training(ranks=1, layers=300, after=attend)
    assert judged(training.record(), tmp_path) == ()
