"""Kernels of the forward pass that run again in the backward pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.finding import Finding
from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.synthetic import Rank, Recording, ranks_of

LAYERS, STEPS = 4, 6
FORWARD = tuple(f"layer_{number}" for number in range(10))
BACKWARD = tuple(f"grad_{number % 3}" for number in range(20))


@dataclass(frozen=True)
class Checkpointed:
    """A training of one rank: a forward pass of LAYERS with the kernels FORWARD, and a backward
    pass that launches `again` before the BACKWARD of each layer, on a thread of autograd.

    A kernel takes `kernel_us`, and the host `host_us` before each. `pause_us`: of the host before
    each step.
    """

    again: Sequence[str] = FORWARD
    kernel_us: float = 100.0
    host_us: float = 1.0
    pause_us: float = 0.0
    is_marked: bool = True
    forward: Sequence[str] = FORWARD

    def record(self) -> Recording:
        (rank,) = ranks_of(1)
        for _ in range(STEPS):
            start = rank.now
            rank.work(self.pause_us)
            self._mark(rank, "forward", lambda: self._launch(rank, LAYERS * (*self.forward,)))
            self._mark(rank, "backward", lambda: self._go_back(rank))
            self._mark(rank, "optimizer AdamW group 0", lambda: rank.kernel(20, "adam"))
            rank.synchronize()
            rank.range("step", start)
        return rank.recording

    def _mark(self, rank: Rank, text: str, act: Callable[[], None]) -> None:
        start = rank.now
        act()
        if self.is_marked:
            rank.mark(text, start)

    def _go_back(self, rank: Rank) -> None:
        rank.lane = 1
        for _ in range(LAYERS):
            self._launch(rank, (*self.again, *BACKWARD))
        rank.lane = 0

    def _launch(self, rank: Rank, names: Sequence[str]) -> None:
        for name in names:
            rank.work(self.host_us)
            rank.kernel(self.kernel_us, name)


def find_all(training: Checkpointed, folder: Path) -> dict[str, Finding]:
    return {finding.kind: finding for finding in judged(training.record(), folder)}


@pytest.mark.parametrize("again", [FORWARD, FORWARD[1:9]])
def test_layers_that_run_again_are_told_as_a_trade(tmp_path: Path, again: Sequence[str]) -> None:
    """The GPU limits the step: without the kernels it is shorter by their time."""
    finding = find_all(Checkpointed(again), tmp_path)["recomputation"]
    count = LAYERS * len(again)
    assert finding.replayed_ms == pytest.approx(0.1 * count, rel=0.02)
    assert f"in {count} kernels of the backward pass" in finding.evidence[0]
    assert f"{100 * len(again) / len(FORWARD):.0f} % of its time" in finding.evidence[0]
    assert "trades time for memory" in finding.advice


@pytest.mark.parametrize(
    "training",
    [
        Checkpointed(again=()),
        Checkpointed(again=FORWARD[::-1]),
        Checkpointed(again=FORWARD[:7]),
        Checkpointed(again=5 * ("gemm", "add"), forward=5 * ("gemm", "add")),
        Checkpointed(is_marked=False),
    ],
    ids=["none", "in another order", "a short row", "two kernels in turn", "no marks"],
)
def test_other_backward_passes_are_not_told(tmp_path: Path, training: Checkpointed) -> None:
    assert "recomputation" not in find_all(training, tmp_path)


def test_a_host_that_limits_the_step_spares_the_hooks_of_checkpoints_too(tmp_path: Path) -> None:
    """A launch takes 60 us of the host, of which 54 are its work. At the least the launches go that
    run again; the estimate spares 0.32 of that work before the others.
    """
    training = Checkpointed(kernel_us=2, host_us=54)
    finding = find_all(training, tmp_path)["recomputation"]
    assert finding.range_ms is not None
    assert finding.replayed_ms is not None
    low, high = finding.range_ms
    again = LAYERS * len(FORWARD)
    assert low == pytest.approx(0.06 * again, rel=0.05)
    hooks = 0.32 * 0.054 * (len(FORWARD) + len(BACKWARD)) * LAYERS
    assert finding.replayed_ms == pytest.approx(low + hooks, rel=0.02)
    assert high > finding.replayed_ms


def test_a_loss_that_costs_nothing_to_mend_comes_before_a_trade(tmp_path: Path) -> None:
    """What runs again takes 4 ms. A wait in each step keeps the pause of 1 ms after it from the
    GPU.
    """
    kinds = list(find_all(Checkpointed(pause_us=1_000), tmp_path))
    assert kinds[0] == "synchronization"
    assert "recomputation" in kinds


def test_a_trade_comes_before_launches_that_gain_more_than_twice_a_small_loss(
    tmp_path: Path,
) -> None:
    training = Checkpointed(kernel_us=25, host_us=54, pause_us=600)
    kinds = list(find_all(training, tmp_path))
    assert kinds[:2] == ["recomputation", "host_bound"]
