"""The gate: silent for the same thing, loud for a slower one, honest about too few steps."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.compare_bench import share_of_alarms
from gpu_profile.analysis.compare.compare import Comparison, compare_samples, parse_percent
from gpu_profile.analysis.compare.formats import write_comparison
from gpu_profile.analysis.compare.samples import Metric, sample_report
from gpu_profile.analysis.compare.significance import (
    Samples,
    compare_medians,
    count_runs_to_find,
    t_quantile,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.errors import ReportError, SettingsError
from tests.further import further
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank, Recording

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
SCHEMA_TIMES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "NVTX_EVENTS",
}


def compared(base: Path, new: Path, metric: str = "step", fail_over: float = 0.05) -> Comparison:
    with Database.open(base) as one, Database.open(new) as other:
        parsed_metric = Metric.parse(metric)
        before, after = (
            sample_report(database, Scope(), parsed_metric) for database in (one, other)
        )
        return compare_samples([before], [after], parsed_metric, fail_over)


def stretched(recording: Recording, factor: float) -> Recording:
    """Everything takes `factor` times as long."""
    for table in SCHEMA_TIMES:
        rows = recording.rows[table]
        times = [(int(str(row[0])) * factor, int(str(row[1])) * factor) for row in rows]
        rows[:] = [(int(a), int(b), *row[2:]) for (a, b), row in zip(times, rows, strict=True)]
    return recording


@contextmanager
def half(step_from: int, step_to: int, folder: Path) -> Iterator[Path]:
    """The recorded run with its steps from..to only."""
    import gzip
    import sqlite3

    path = folder / f"steps{step_from}.sqlite"
    packed = DATA / "all-ranks-one-report.sqlite.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "DELETE FROM NVTX_EVENTS WHERE text = 'step' AND rowid NOT IN (SELECT id FROM ("
            "SELECT rowid AS id, row_number() OVER (PARTITION BY globalTid ORDER BY start) AS n"
            " FROM NVTX_EVENTS WHERE text = 'step') WHERE n > ? AND n <= ?)",
            (step_from, step_to),
        )
    connection.close()
    yield path


def noisy(rank: Rank) -> None:
    """Uneven steps, the same each time."""
    rank.kernel(100 + 37 * (rank.calls % 11))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Training(steps=24, data=noisy).record().save(tmp_path / "base.sqlite")


def test_a_run_is_no_slower_than_itself(base: Path) -> None:
    result = compared(base, base)
    assert result.verdict == "pass"
    assert not result.is_regression
    assert result.kernels.rows == ()


@pytest.mark.recorded
def test_two_halves_of_the_recorded_run_pass(tmp_path: Path) -> None:
    with half(0, 10, tmp_path) as first, half(10, 20, tmp_path) as second:
        for metric in ("step", "range:forward", "range:backward", "kernel:Kernel2"):
            assert compared(first, second, metric).verdict == "pass", metric


def test_only_steps_that_all_ranks_recorded_are_compared(tmp_path: Path) -> None:
    """Every third step is slow. Rank 3 begins a step late: paired by their numbers, two in three
    would be.
    """

    def late_in_every_third(rank: Rank) -> None:
        if len(rank.started) // 41 % 3 == 0:
            rank.work(30_000)

    training = Training(steps=24, layers=40, data=late_in_every_third)
    whole, cut = training.record(), training.record()
    ranges = cut.rows["NVTX_EVENTS"]
    first = next(row for row in ranges if row[5] == "step" and int(str(row[3])) & 0xFFFFFF == 103)
    ranges.remove(first)
    result = compared(whole.save(tmp_path / "whole.sqlite"), cut.save(tmp_path / "cut.sqlite"))
    assert result.new.median == pytest.approx(result.base.median, rel=0.05)
    assert result.verdict == "pass"
    assert (result.base.left_out, result.new.left_out, result.new.reason) == (
        0,
        1,
        "rank 3 recorded 23 of 24",
    )
    left_out = "1 not on every rank (rank 3 recorded 23 of 24)"
    for form in ("text", "markdown", "junit"):
        assert left_out in write_comparison(result, form)
    assert json.loads(write_comparison(result, "json"))["new"]["left_out"] == 1


def test_a_slowed_copy_fails(base: Path, tmp_path: Path) -> None:
    slow = stretched(Training(steps=24, data=noisy).record(), 1.1).save(tmp_path / "slow.sqlite")
    result = compared(base, slow)
    assert result.is_regression
    assert result.difference is not None
    assert result.difference.change == pytest.approx(0.1, abs=0.01)
    assert compared(base, slow, fail_over=0.15).verdict == "pass"
    assert compared(slow, base).verdict == "improvement"


def test_the_same_input_gives_the_same_bytes(base: Path, tmp_path: Path) -> None:
    slow = stretched(Training(steps=24, data=noisy).record(), 1.03).save(tmp_path / "slow.sqlite")
    first, second = (compared(base, slow) for _ in range(2))
    for form in ("text", "json", "markdown", "junit"):
        assert write_comparison(first, form) == write_comparison(second, form)


def test_noise_is_no_regression() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        base, new = random.normal(100, 10, 30), random.normal(100, 10, 30)
        difference = compare_medians([base], [new])
        assert difference is not None
        assert not (difference.significant and difference.change > 0.05)


def steady(*medians: float) -> list[Samples]:
    """Runs of these median step times, whose steps vary by a few percent."""
    shape = np.linspace(0.97, 1.03, 21)
    return [median * shape for median in medians]


def test_one_run_a_side_differs_by_the_assumed_spread() -> None:
    """2.241 (z at 1.25 %) times the square root of 2 times 3 % is 9.51 %."""
    for new, significant in ((109, False), (110, True), (92, False), (100 / 1.1, True)):
        difference = compare_medians(steady(100), steady(new))
        assert difference is not None
        assert difference.noise == pytest.approx(0.0951 * min(1, new / 100), abs=1e-4)
        assert (difference.significant, difference.is_assumed) == (significant, True)
    narrow = compare_medians(steady(100), steady(106), assumed=0.01)
    assert narrow is not None
    assert narrow.significant


def test_runs_of_a_side_tell_their_spread() -> None:
    """t at 1.25 % and 4 degrees of freedom is 3.495; times 1 % and the square root of 2/3."""
    difference = compare_medians(steady(99, 100, 101), steady(103, 104, 105))
    assert difference is not None
    assert not difference.is_assumed
    assert difference.spread == pytest.approx(0.01)
    assert difference.noise == pytest.approx(0.0285, abs=1e-4)
    assert difference.significant
    wide = compare_medians(steady(95, 100, 105), steady(99, 104, 109))
    assert wide is not None
    assert not wide.significant


def test_three_runs_in_all_are_too_few_to_tell_their_spread() -> None:
    difference = compare_medians(steady(100, 100), steady(108))
    assert difference is not None
    assert (difference.spread, difference.is_assumed) == (0.03, True)
    wide = compare_medians(steady(90, 110), steady(108))
    assert wide is not None
    assert wide.spread == pytest.approx(0.1414, abs=1e-4)


def test_a_run_of_wild_steps_is_not_trusted() -> None:
    random = np.random.default_rng(3)
    base, new = random.normal(100, 40, 7), random.normal(112, 40, 7)
    difference = compare_medians([base], [new])
    assert difference is not None
    assert difference.spread > 0.1
    assert not difference.significant


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 31.821), (2, 6.965), (3, 4.541), (4, 3.747), (18, 2.552), (math.inf, 2.326)],
)
def test_quantiles_of_student_s_t(freedom: float, expected: float) -> None:
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, one-sided 1 %."""
    assert t_quantile(0.01, freedom) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("runs", [3, further(10)])
def test_unchanged_programs_pass_and_slower_ones_fail(runs: int) -> None:
    """bench/compare_bench.py does it at length; here a bound that a sound test never misses."""
    unchanged = share_of_alarms(runs, spread=0.06, slower=1.0, trials=600)
    assert unchanged <= 0.02
    assert share_of_alarms(runs, spread=0.02, slower=1.1, trials=300) >= 0.80


def test_too_few_steps_are_undecided(tmp_path: Path) -> None:
    few = Training(steps=4).record().save(tmp_path / "few.sqlite")
    result = compared(few, few)
    assert result.verdict == "undecided"
    assert "3 and 3 samples, 5 a run are needed" in str(result)
    assert "record 2 more steps in each run of the base and the new side" in str(result)
    document = json.loads(write_comparison(result, "json"))
    assert (document["missing_steps"], document["runs_to_decide"]) == (2, None)


def test_a_slower_program_within_the_noise_is_undecided(base: Path, tmp_path: Path) -> None:
    """8 % more is over the threshold, and one run a side has 9.5 % of noise. The text says how
    many runs would tell; with so many, it is told.
    """
    slow = stretched(Training(steps=24, data=noisy).record(), 1.08).save(tmp_path / "slow.sqlite")
    result = compared(base, slow)
    assert (result.verdict, result.fails, result.runs_to_decide) == ("undecided", False, 4)
    words = "4 runs a side would tell a change of 8 % from noise, if runs differ by 3.0 %"
    assert str(result).endswith(words)
    skipped = ElementTree.fromstring(write_comparison(result, "junit"))
    assert (skipped.get("failures"), skipped.get("skipped")) == ("0", "1")
    strict = replace(result, require_decision=True)
    failed = ElementTree.fromstring(write_comparison(strict, "junit"))
    assert strict.fails
    assert (failed.get("failures"), failed.get("skipped")) == ("1", "0")
    for runs, significant in ((3, False), (4, True)):
        noise = t_quantile(0.0125, 2 * runs - 2) * 0.03 * math.sqrt(2 / runs)
        assert (noise < 0.08) is significant
    faster = compared(slow, base)
    assert faster.verdict == "pass"


def test_a_pass_says_what_would_find_the_threshold(base: Path) -> None:
    text = write_comparison(compared(base, base), "text")
    assert "6 runs a side would tell a change of 5 % from noise, if runs differ by 3.0 %." in text
    assert count_runs_to_find(0.01, 0.2) is None


def test_kernels_appear_vanish_and_change(base: Path, tmp_path: Path) -> None:
    def other(rank: Rank) -> None:
        noisy(rank)
        rank.kernel(500, "flash")

    new = Training(steps=24, data=other, layers=44).record().save(tmp_path / "new.sqlite")
    rows = {row[0]: row for row in compared(base, new).kernels.rows}
    assert rows["flash"][1:4] == ("appeared", 0, 1)
    assert rows["gemm"][1:4] == ("changed", 41, 45)
    back = {row[0]: row[1] for row in compared(new, base).kernels.rows}
    assert back["flash"] == "vanished"


def without_gpu(recording: Recording) -> Recording:
    for table, rows in recording.rows.items():
        if table.startswith("CUPTI_"):
            rows.clear()
    return recording


def test_runs_without_a_gpu_compare_the_host(base: Path, tmp_path: Path) -> None:
    same = without_gpu(Training(steps=24, data=noisy).record()).save(tmp_path / "same.sqlite")
    slower = stretched(without_gpu(Training(steps=24, data=noisy).record()), 1.1)
    slow = slower.save(tmp_path / "slow.sqlite")
    for metric in ("step", "range:step"):
        assert str(compared(same, slow, metric)).startswith(f"{metric} on the host: regression")
    with pytest.raises(ReportError, match="the new run holds no GPU work, and the other does"):
        compared(base, same)


def test_formats(base: Path, tmp_path: Path) -> None:
    slow = stretched(Training(steps=24, data=noisy).record(), 1.1).save(tmp_path / "slow.sqlite")
    result = compared(base, slow)
    document = json.loads(write_comparison(result, "json"))
    assert document["verdict"] == "regression"
    assert document["interval"][0] > 0
    suite = ElementTree.fromstring(write_comparison(result, "junit"))
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "0")
    assert suite.find("testcase/failure") is not None
    assert "| base | 1 | 23 |" in write_comparison(result, "markdown")
    assert write_comparison(result, "text").startswith("step: regression, +10.0")


@pytest.mark.parametrize("metric", ["steps", "range", "kernel:", "step:x", ""])
def test_an_unknown_metric_is_refused(metric: str, base: Path) -> None:
    with pytest.raises(SettingsError, match="is not known"):
        compared(base, base, metric)


def test_a_metric_that_is_not_there_is_refused(base: Path) -> None:
    with pytest.raises(ReportError, match=r"the base run has no kernel:gem\. There is gemm"):
        compared(base, base, "kernel:gem")
    with pytest.raises(ReportError, match="the base run has no range:nowhere"):
        compared(base, base, "range:nowhere")


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("5", 0.05), (" 0.5 %", 0.005)])
def test_percent(text: str, value: float) -> None:
    assert parse_percent(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "-1", "nan", "five", "inf"])
def test_a_bad_percentage_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a percentage"):
        parse_percent(text)
