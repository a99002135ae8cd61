"""A run of four ranks, one of which cannot be read: named and counted, and no gate passes."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.compare.rank_sets import SideRanks, check_ranks
from gpu_profile.errors import ReportError
from gpu_profile.runs.record import RunRecord
from tests.further import further
from tests.fuzz.damage import damage_leaf
from tests.invoked import invoke
from tests.unit.analysis.synthetic import STREAM, US, Rank, Recording

MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
STEPS, KERNELS = 8, 20


def record_rank(number: int) -> Recording:
    """A few steps with kernels, a copy and a memset each. A recorded rank takes 50 ms to read."""
    recording = Recording()
    recording.add("TARGET_INFO_GPU", number, "NVIDIA H200")
    recording.add("TARGET_INFO_CUDA_DEVICE", number, number, 100 + number)
    rank = Rank(recording, number, now=number * US)
    for _ in range(STEPS):
        start = rank.now
        for _ in range(KERNELS):
            rank.work(4 + number)
            rank.kernel(200)
        rank.copy(1)
        call = rank.call("cudaMemsetAsync_v3020", rank.launch_us)
        place = (number, STREAM, call, rank.process, 4096, 0, 2)
        recording.add(MEMSET, rank.free + US, rank.free + 2 * US, *place)
        rank.synchronize()
        rank.range("step", start)
    return recording


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run."""
    folder = tmp_path_factory.mktemp("four")
    for number in range(4):
        record_rank(number).save(folder / f"rank{number}.h.sqlite")
    return folder


@pytest.fixture(scope="module")
def damaged(four: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with one byte of rank 2's memsets damaged: a table that the survey of ranks
    and clocks does not read."""
    folder = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(four, folder)
    damage_leaf(folder / "rank2.h.sqlite", MEMSET)
    return folder


def without_copied_bytes(run: Path, folder: Path) -> Path:
    """Rank 2's copies lack the column `bytes`, as of a schema that is unknown here."""
    target = folder / "run"
    shutil.copytree(run, target)
    with closing(sqlite3.connect(target / "rank2.h.sqlite")) as report:
        report.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY RENAME COLUMN bytes TO size")
        report.commit()
    return target


@pytest.fixture(scope="module")
def without_kernels(four: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run without rank 1's kernels. Its copies and ranges give its steps times."""
    folder = tmp_path_factory.mktemp("without-kernels") / "run"
    shutil.copytree(four, folder)
    with closing(sqlite3.connect(folder / "rank1.h.sqlite")) as report:
        report.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        report.commit()
    return folder


@pytest.mark.parametrize("side", ["new", further("base")])
def test_compare_fails_on_a_rank_without_kernels(
    four: Path, without_kernels: Path, side: str
) -> None:
    base, new = (four, without_kernels) if side == "new" else (without_kernels, four)
    done = invoke("compare", f"--base={base}", f"--new={new}", directory=four.parent)
    line = f"error: the {side} run has no kernels to compare on rank 1, and the other run has"
    assert (done.returncode, done.stdout) == (6, "")
    assert line in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.further
def test_compare_fails_where_both_runs_lost_the_kernels_of_a_rank(
    without_kernels: Path, tmp_path: Path
) -> None:
    again = shutil.copytree(without_kernels, tmp_path / "again")
    words = ("compare", f"--base={without_kernels}", f"--new={again}")
    done = invoke(*words, directory=without_kernels)
    assert (done.returncode, done.stdout) == (6, "")
    lost = "CUPTI_ACTIVITY_KIND_KERNEL lacks the kernels of 160 of 160 launches"
    assert f"error: the base run lost a part of rank 1: {lost}. " in done.stderr


def test_compare_fails_where_a_rank_lost_most_of_its_kernels(four: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(four, lost)
    with closing(sqlite3.connect(lost / "rank2.h.sqlite")) as report:
        report.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 20 != 0")
        report.commit()
    done = invoke("compare", f"--base={four}", f"--new={lost}", directory=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    lacks = "CUPTI_ACTIVITY_KIND_KERNEL lacks the kernels of 152 of 160 launches"
    assert f"error: the new run lost a part of rank 2: {lacks}" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("base", "new", "form"),
    [("four", "damaged", "text"), further("damaged", "four", "json")],
)
def test_compare_fails_on_a_damaged_rank(
    four: Path, damaged: Path, base: str, new: str, form: str
) -> None:
    """It ends before a format is written, so one of several stands for all."""
    runs = {"four": four, "damaged": damaged}
    words = ("compare", f"--base={runs[base]}", f"--new={runs[new]}", f"--format={form}")
    done = invoke(*words, directory=four.parent)
    assert (done.returncode, done.stdout) == (6, "")
    assert "rank2.h.sqlite is damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_fails_on_a_missing_rank(four: Path, tmp_path: Path) -> None:
    three = tmp_path / "three"
    shutil.copytree(four, three)
    (three / "rank3.h.sqlite").unlink()
    for base, new, side in ((four, three, "new"), (three, four, "base")):
        done = invoke("compare", f"--base={base}", f"--new={new}", directory=tmp_path)
        assert (done.returncode, done.stdout) == (6, "")
        assert f"the {side} run has no report of rank 3" in done.stderr


@pytest.mark.further
def test_compare_fails_on_a_rank_that_both_runs_miss(four: Path, tmp_path: Path) -> None:
    """Their run.json says which ranks were to leave a report."""
    three = tmp_path / "three"
    shutil.copytree(four, three)
    (three / "rank3.h.sqlite").unlink()
    for ranks, code in (((0, 1, 2, 3), 6), ((0, 1, 2), 0)):
        run = RunRecord(id="three", launcher="host", command=("train",), ranks=ranks)
        (three / "run.json").write_text(run.to_json())
        again = shutil.copytree(three, tmp_path / f"again{code}")
        done = invoke("compare", f"--base={three}", f"--new={again}", directory=tmp_path)
        assert done.returncode == code, done.stderr
        assert ("has no report of rank 3" in done.stderr) is (code == 6)


@pytest.mark.parametrize("metric", ["step", further("kernel:gemm")])
def test_compare_fails_on_a_rank_without_its_gpu_work(
    four: Path, tmp_path: Path, metric: str
) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(four, lost)
    with closing(sqlite3.connect(lost / "rank2.h.sqlite")) as report:
        for kind in ("KERNEL", "MEMCPY", "MEMSET"):
            report.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{kind}")
        report.commit()
    words = (f"--base={four}", f"--new={lost}", f"--metric={metric}")
    done = invoke("compare", *words, directory=tmp_path)
    assert done.returncode == 6, done.stdout
    assert f"the new run has no {metric} on rank 2" in done.stderr


def test_compare_reads_single_reports_by_their_files(four: Path) -> None:
    files = (f"--base={four}/rank0.h.sqlite", f"--new={four}/rank1.h.sqlite")
    done = invoke("compare", *files, directory=four.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("base", "new", "missing"),
    [
        (({0, 1, 2, 3}, {}), ({0, 1, 2, 3}, {}), ""),
        (({0, 1, 2, 3}, {}), ({0, 1, 3}, {2}), "new run has no report of rank 2"),
        (({0, 1, 2}, {3}), ({0, 1, 2}, {3}), "base run has no report of rank 3"),
        (({0, 1}, {}), ({0, 1, 2, 3}, {}), ""),
        (({0, 1}, {}, False), ({0, 1, 2, 3}, {}), "base run has no report of rank 2, 3"),
        (({0}, {1, 2, 3}, False, True), ({1}, {0, 2, 3}, False, True), ""),
        (({0, 1, 2, 3}, {}), ({0}, {1, 2, 3}, False, True), "new run has no report of rank 1, 2"),
    ],
)
def test_which_ranks_a_comparison_needs(
    base: tuple[set[int], set[int]], new: tuple[set[int], set[int]], missing: str
) -> None:
    sides = [
        SideRanks(name, frozenset(side[0]), frozenset(side[1]), *side[2:])
        for name, side in (("base", base), ("new", new))
    ]
    if not missing:
        check_ranks(*sides)
        return
    with pytest.raises(ReportError, match=missing):
        check_ranks(*sides)


COUNTED = "note: 1 of 4 reports left out: what follows is of the other 3"


def test_tables_and_findings_name_and_count_the_rank(damaged: Path, tmp_path: Path) -> None:
    tables = "--table=cuda_gpu_kern_sum,cuda_gpu_mem_time_sum"
    for words in (("stats", tables, "--format=json"), ("diagnose",)):
        done = invoke(*words, f"--report={damaged}", directory=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"left out: {damaged}/rank2.h.sqlite is damaged" in done.stderr
        assert COUNTED in done.stderr
        assert "no such events" not in done.stdout
        assert "no GPU work" not in done.stdout
        if words[0] == "stats":
            copies = json.loads(done.stdout)["cuda_gpu_mem_time_sum"]
            assert sum(row["Count"] for row in copies) > 0


@pytest.mark.parametrize("verb", ["html", further("timeline")])
def test_page_and_timeline_name_and_count_the_rank(
    damaged: Path, tmp_path: Path, verb: str
) -> None:
    output = tmp_path / verb
    done = invoke(verb, f"--report={damaged}", f"--output={output}", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"left out: {damaged}/rank2.h.sqlite is damaged" in done.stderr
    assert COUNTED in done.stderr
    assert output.exists()
    assert verb == "timeline" or "rank2.h.sqlite is damaged" in output.read_text()


@pytest.mark.parametrize("verb", ["stats", "diagnose", "html", "timeline"])
def test_alone_it_is_an_error(damaged: Path, tmp_path: Path, verb: str) -> None:
    table = ["--table=cuda_gpu_kern_sum,cuda_gpu_mem_time_sum"] if verb == "stats" else []
    words = (verb, f"--report={damaged}/rank2.h.sqlite", *table)
    done = invoke(*words, directory=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    assert "rank2.h.sqlite is damaged" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_is_not_there_is_no_empty_table(four: Path, tmp_path: Path) -> None:
    run = without_copied_bytes(four, tmp_path)
    tables = "--table=cuda_gpu_kern_sum,cuda_gpu_mem_size_sum"
    alone = invoke("stats", tables, f"--report={run}/rank2.h.sqlite", directory=tmp_path)
    assert (alone.returncode, alone.stdout) == (6, "")
    assert "has no column bytes" in alone.stderr
    beside = invoke("stats", tables, f"--report={run}", directory=tmp_path)
    assert beside.returncode == 0
    assert COUNTED in beside.stderr
