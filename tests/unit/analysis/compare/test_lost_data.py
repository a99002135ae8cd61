"""A rank that lost a part of its data never passes: each damage of a recorded run is refused."""

import gzip
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.compare.compare import Comparison, compare_samples
from gpu_profile.analysis.compare.samples import Metric, RankSamples, Recording, sample_report
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.errors import ReportError
from tests.further import keep_first
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
KERNEL, RUNTIME, NVTX = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
TABLES = (KERNEL, RUNTIME, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", NVTX)
METRICS = ("step", "range:forward", "kernel:Kernel2")
Samples = dict[str, list[RankSamples]]
SESSION_NS = 1_763_000_000_000_000_000
FIRST, LAST = f"(SELECT min(start) FROM {KERNEL})", f"(SELECT max(start) FROM {KERNEL})"


def load(path: Path, rank: int, metrics: Sequence[str]) -> Samples:
    """The samples by metric. The session starts of the reports are exact: they are of one host."""
    with Database.open(path) as database:
        ((pid,),) = {row[:1] for row in database.rows("TARGET_INFO_CUDA_CONTEXT_INFO", "processId")}
        ((utc,),) = database.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
        scope = Scope({int(str(pid)): rank}, offset_ns=int(str(utc)) - SESSION_NS)
        return {name: sample_report(database, scope, Metric.parse(name)) for name in metrics}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("four")
    for rank in range(4):
        packed = (DATA / f"rank{rank}.sqlite.gz").read_bytes()
        (folder / f"rank{rank}.sqlite").write_bytes(gzip.decompress(packed))
    return [folder / f"rank{rank}.sqlite" for rank in range(4)]


@pytest.fixture(scope="module")
def four(unpacked: list[Path]) -> list[Samples]:
    return [load(path, rank, METRICS) for rank, path in enumerate(unpacked)]


def damage(path: Path, folder: Path, statements: Sequence[str], rank: int, metric: str) -> Samples:
    copy = folder / f"damaged{rank}.sqlite"
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return load(copy, rank, (metric,))


def compare(base: Sequence[Samples], new: Sequence[Samples], metric: str = "step") -> Comparison:
    sides = [[rank for samples in side for rank in samples[metric]] for side in (base, new)]
    return compare_samples([sides[0]], [sides[1]], Metric.parse(metric), 0.05)


def cut(condition: str, tables: Sequence[str] = TABLES) -> list[str]:
    """Rows that meet the condition go, by the times of all kernels."""
    edges = f"CREATE TABLE edges AS SELECT {FIRST} AS first, {LAST} - {FIRST} AS span"
    rest = [f"DELETE FROM {table} WHERE {condition}" for table in tables]
    return [edges, *rest, "DROP TABLE edges"]


def after(part: float) -> str:
    return f"start > (SELECT first + span * {part} FROM edges)"


def ranges_left(text: str, condition: str) -> str:
    """Delete the NVTX ranges of this text, but those whose number meets the condition."""
    rows = f"SELECT rowid AS id, row_number() OVER (ORDER BY start) AS n FROM {NVTX}"
    named = f"text = '{text}' OR textId IN (SELECT id FROM StringIds WHERE value = '{text}')"
    return (
        f"DELETE FROM {NVTX} WHERE rowid IN (SELECT id FROM ({rows} WHERE {named}) "
        f"WHERE NOT ({condition}))"
    )


ON_RANK_2 = (
    ("step", [f"DELETE FROM {KERNEL} WHERE rowid % 20 != 0"], rf"{KERNEL} lacks the kernels of"),
    ("kernel:Kernel2", [f"DELETE FROM {KERNEL} WHERE rowid % 2 = 0"], r"of 29\d\d of \d+ launches"),
    ("step", [f"UPDATE {KERNEL} SET start = end WHERE rowid % 2 = 0"], "2940 of 5880 kernels"),
    ("step", [f"DELETE FROM {RUNTIME} WHERE rowid % 2 = 0"], f"{RUNTIME} lacks the calls"),
    ("step", cut(after(0.3)), r"tables hold 7 of 20 steps, 0\.\d+ of 0\.\d+ s"),
    ("step", cut("NOT " + after(0.75)), "lacks the calls|tables hold 5 of 20 steps"),
    ("step", cut(after(0.6)), "holds 12 of 20 steps"),
    ("step", cut(after(0.5), [KERNEL]), r"ends before \d+ of 5880 launches|lacks the kernels"),
    ("step", [ranges_left("step", "n <= 4")], f"{NVTX} holds 4 of 20 steps"),
    ("range:forward", [ranges_left("forward", "n % 2")], r"holds 0\.\d+ of 1 instances"),
    (
        "step",
        [
            f"DELETE FROM {RUNTIME} WHERE correlationId IN "
            f"(SELECT correlationId FROM {KERNEL} WHERE rowid % 2 = 0)",
            f"DELETE FROM {KERNEL} WHERE rowid % 2 = 0",
        ],
        r"holds 1\.\d+ of 3 collectives a step",
    ),
)


@pytest.mark.parametrize(("metric", "statements", "loss"), keep_first(4, ON_RANK_2))
def test_a_part_of_one_rank_is_gone(
    four: list[Samples],
    unpacked: list[Path],
    tmp_path: Path,
    metric: str,
    statements: list[str],
    loss: str,
) -> None:
    """On one side, on the other, or on both."""
    damaged = damage(unpacked[2], tmp_path, statements, 2, metric)
    run = [*four[:2], damaged, four[3]]
    for base, new, side in ((four, run, "new"), (run, four, "base")):
        with pytest.raises(ReportError, match=rf"the {side} run lost .* rank 2: .*({loss})"):
            compare(base, new, metric)


def test_kernels_that_stand_twice_are_no_loss_of_the_other_run(
    four: list[Samples], unpacked: list[Path], tmp_path: Path
) -> None:
    again = [f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL} WHERE rowid % 2 = 0"]
    run = [*four[:2], damage(unpacked[2], tmp_path, again, 2, "step"), four[3]]
    for base, new, side in ((four, run, "new"), (run, four, "base")):
        with pytest.raises(ReportError, match=rf"rank 2 of the {side} run holds \d+ kernels twice"):
            compare(base, new)


def test_steps_go_on_when_the_gpu_s_recording_has_ended(
    four: list[Samples], unpacked: list[Path], tmp_path: Path
) -> None:
    """On all ranks: launches and kernels end at half of the time, the NVTX ranges do not."""
    half = cut(after(0.5), TABLES[:-1])
    new = [damage(path, tmp_path, half, rank, "step") for rank, path in enumerate(unpacked[:2])]
    with pytest.raises(ReportError, match=rf"part of rank 0: {KERNEL} ends before \d+ of 20 steps"):
        compare(four[:2], new)


@pytest.mark.parametrize(
    ("metric", "condition"), [("kernel:Kernel2", "rowid % 3 = 0"), ("range:forward", "rowid > 1")]
)
def test_a_part_of_all_ranks_is_gone(
    four: list[Samples], unpacked: list[Path], tmp_path: Path, metric: str, condition: str
) -> None:
    statements = [f"DELETE FROM {KERNEL} WHERE {condition}"]
    new = [
        damage(path, tmp_path, statements, rank, metric) for rank, path in enumerate(unpacked[:2])
    ]
    lost = rf"part of rank 0: {KERNEL} (lacks the kernels of|ends before) \d+"
    with pytest.raises(ReportError, match=lost):
        compare(four[:2], new, metric)


def test_one_rank_of_four_steps_does_not_switch_the_gate_off(
    four: list[Samples], unpacked: list[Path], tmp_path: Path
) -> None:
    """Both sides have it: no side lacks what the other has."""
    few = damage(unpacked[2], tmp_path, [ranges_left("step", "n <= 4")], 2, "step")
    run = [*four[:2], few, four[3]]
    words = "rank 2 of the base run has 4 steps, too few to compare, and others have up to 20"
    with pytest.raises(ReportError, match=words):
        compare(run, run)


def test_a_rank_whose_times_are_of_another_clock_is_refused(
    four: list[Samples], unpacked: list[Path], tmp_path: Path
) -> None:
    """A tenth of its times: it was the slowest rank, and would seem to be the fastest one."""
    shorter = [
        f"UPDATE {table} SET start = start / 10, end = end / 10 WHERE end IS NOT NULL"
        for table in TABLES
    ]
    fast = damage(unpacked[2], tmp_path, shorter, 2, "step")
    run = [*four[:2], fast, four[3]]
    words = r"the times of rank 2 of the new run are of another clock: its 20 steps take 0\.0\d+ s"
    with pytest.raises(ReportError, match=words):
        compare(four, run)


def test_a_rank_of_the_base_run_is_no_rank_of_the_new_one(four: list[Samples]) -> None:
    def record_again(rank: RankSamples) -> RankSamples:
        return replace(rank, recording=Recording(1, 2, 3, rank.rank))

    again = [{"step": list(map(record_again, samples["step"]))} for samples in four]
    assert compare(four, again).verdict == "pass"
    assert compare(four, four).verdict == "pass"
    with pytest.raises(
        ReportError, match="a base run and a new run hold the same recording of rank 2"
    ):
        compare(four, [*again[:2], four[2], again[3]])
    ranks = [samples["step"][0] for samples in four]
    with pytest.raises(
        ReportError, match="two base runs hold the same recording of rank 0, 1, 2, 3"
    ):
        compare_samples([ranks, ranks], [ranks], Metric.parse("step"), 0.05)


def test_steps_within_the_edge_of_a_window_are_counted(
    four: list[Samples], unpacked: list[Path], tmp_path: Path
) -> None:
    late = damage(unpacked[2], tmp_path, cut(after(0.8)), 2, "step")
    run = [*four[:2], late, four[3]]
    result = compare(run, run)
    assert (result.new.warm_up, result.new.left_out) == (1, 5)
    assert result.new.reason == "rank 2 recorded 16 of 20"


def log(rank: Rank) -> None:
    for _ in range(5):
        rank.kernel(20, "log")


def test_other_numbers_of_kernels_are_one_line(tmp_path: Path) -> None:
    """A rank that logs more, or less, or all ranks of a changed program: no loss."""
    runs = {}
    plain = Training(steps=12, layers=20)
    logs, changed = replace(plain, only={0: log}), replace(plain, data=log)
    for name, program in (("plain", plain), ("logs", logs), ("changed", changed)):
        path = program.record().save(tmp_path / f"{name}.sqlite")
        with Database.open(path) as database:
            runs[name] = sample_report(database, Scope(), Metric.parse("step"))

    def notes(base: str, new: str) -> tuple[str, ...]:
        return compare_samples([runs[base]], [runs[new]], Metric.parse("step"), 0.05).notes

    more = "another number of kernels a step: rank 0"
    others = "as many as before on the other ranks"
    assert notes("plain", "plain") == ()
    assert notes("plain", "logs") == (f"{more} 22 -> 27, {others}",)
    assert notes("logs", "plain") == (f"{more} 27 -> 22, {others}",)
    assert notes("plain", "changed")[0].startswith(f"{more} 22 -> 27, rank 1 22 -> 27")
