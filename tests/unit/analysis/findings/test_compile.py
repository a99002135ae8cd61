"""Compilations in the middle of a run, by what loads and first runs after a pause."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.rules.host.compile import RULE
from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def compile_each(period: int, least: int = 0) -> Callable[[Rank], None]:
    """Every `period` steps, after `least` of them, a new kernel is compiled for 60 ms."""
    steps = count()

    def run(rank: Rank) -> None:
        step = next(steps)
        if step >= least and step % period == 0:
            rank.work(60_000)
            rank.call("cuModuleLoadData", 300)
            rank.kernel(50, f"triton_poi_fused_{step}")

    return run


def test_recompilations_are_named_and_no_idle_host_beside_them(tmp_path: Path) -> None:
    """Of each 60 ms the GPU idles for 28: the host is four steps of 8 ms ahead."""
    training = Training(ranks=1, steps=21, after=compile_each(4))
    (finding,) = judged(training.record(), tmp_path)
    assert (finding.kind, finding.cause) == ("compile", "recompilation")
    assert finding.cost_ms == pytest.approx(28 / 4, rel=0.15)
    assert any("the host compiled in 5 of 20 steps" in line for line in finding.evidence)
    assert any("5 kernels ran for the first time right after it" in e for e in finding.evidence)


@pytest.mark.parametrize("marked", [True, False], ids=["our mark", "torch's range"])
def test_marks_and_ranges_prove_a_compilation_without_new_kernels(
    marked: bool, tmp_path: Path
) -> None:
    steps = count()

    def trace(rank: Rank) -> None:
        if next(steps) % 4 == 0:
            start = rank.now
            rank.work(60_000)
            if marked:
                rank.pause('compilation | forward "model.py" 30', start)
            else:
                rank.range("_compile.compile_inner (dynamo_timed)", start)

    (finding,) = judged(Training(ranks=1, steps=21, after=trace).record(), tmp_path)
    assert finding.kind == "compile"
    names = [line for line in finding.evidence if "compiled forward (model.py:30)" in line]
    assert len(names) == marked


def test_a_first_use_that_comes_once_is_no_recompilation(tmp_path: Path) -> None:
    once = Training(ranks=1, steps=21, after=compile_each(16, least=8))
    assert "compile" not in {finding.kind for finding in judged(once.record(), tmp_path)}


def test_a_library_that_compiles_a_kernel_of_one_name_again_and_again(tmp_path: Path) -> None:
    """As cuDNN does for each new shape: it sets memory between the load and the first launch."""
    steps = count()

    def attend(rank: Rank) -> None:
        if next(steps) % 2 == 0:
            rank.work(60_000)
            rank.call("cuLibraryLoadData", 80)
        rank.kernel(20, "memset")
        rank.kernel(50, "attention")

    (finding,) = judged(Training(ranks=1, steps=21, after=attend).record(), tmp_path)
    assert finding.kind == "compile"


def test_an_autotuner_in_several_steps_is_named(tmp_path: Path) -> None:
    """40 ms in each fourth step, in which the GPU is busy: it runs each configuration."""
    steps = count()
    stack = 'stack | main "train.py" 0 | _bench "/lib/triton/runtime/autotuner.py" 0'

    def tune(rank: Rank) -> None:
        if next(steps) % 4 == 0:
            for _ in range(4):
                start = rank.now
                for _ in range(50):
                    rank.kernel(196, "flush")
                rank.synchronize()
                rank.pause(stack, start)

    findings = judged(Training(ranks=1, steps=21, layers=20, after=tune).record(), tmp_path)
    first = findings[0]
    assert (first.kind, first.cause) == ("compile", "autotuning")
    assert first.cost_ms == pytest.approx(40 / 4, rel=0.25)
    assert "the host tuned kernels in 5 of 20 steps" in first.evidence[0]
    assert "triton.autotune" in first.advice


def capture_each(period: int, steps: int) -> Training:
    """The host collects garbage for 5 ms, captures, and loads a kernel before some of its steps."""
    turn = count()

    def run(rank: Rank) -> None:
        if next(turn) % period == 0:
            rank.work(5_000)
            rank.call("cudaStreamBeginCapture_v10000", 20)
            rank.work(15_000)
            rank.call("cuLibraryLoadData", 80)
            rank.call("cudaLaunchKernel_v7000", 6)
            rank.call("cudaGraphInstantiateWithFlags_v11040", 500)
        rank.graph(900)
        rank.item()

    return Training(ranks=1, steps=steps, layers=2, after=run)


@pytest.mark.parametrize("period", [1, 2])
def test_captures_of_graphs_are_named_with_all_that_they_take(period: int, tmp_path: Path) -> None:
    findings = judged(capture_each(period, 29).record(), tmp_path)
    captured = next(each for each in findings if each.kind == "idle")
    assert captured.cause == "capture"
    assert captured.cost_ms == pytest.approx(20.6 / period, rel=0.15)
    assert "compile" not in {finding.kind for finding in findings}
    assert f"{1 / period:.2f} captures a step" in " ".join(captured.evidence)


@pytest.mark.parametrize(
    ("cause", "explained"),
    [("host", True), ("data", True), ("capture", True), ("dependency", False)],
)
def test_what_compilations_explain(cause: str, explained: bool) -> None:
    """XLA captures a CUDA graph of what it has compiled anew, in the same pause."""
    compilation = Finding("compile", (0, 1), "recompilation", (), "")
    for ranks, expected in (((0,), explained), ((2,), False)):
        pause = Finding("idle", ranks, cause, (), "")
        assert RULE.explains([compilation], pause) == expected


def test_a_graph_that_is_captured_once_is_no_habit(tmp_path: Path) -> None:
    findings = judged(capture_each(20, 29).record(), tmp_path)
    assert "capture" not in {finding.cause for finding in findings}


def test_pauses_that_load_nothing_are_no_compilation(tmp_path: Path) -> None:
    steps = count()

    def pause(rank: Rank) -> None:
        rank.work(60_000 if next(steps) % 4 == 0 else 0)

    findings = judged(Training(ranks=1, steps=21, after=pause).record(), tmp_path)
    assert [finding.kind for finding in findings] == ["idle"]
