"""The Python API on recordings: the same numbers as the verbs print."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_profile
from gpu_profile.api.results import RunFindings, RunTable
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.runs.record import RunRecord
from tests.invoked import invoke

RECORDED = Path(__file__).parents[2] / "data" / "h200x4-ddp" / "rank0.sqlite.gz"


@pytest.fixture(scope="module")
def ranks(short_run: Path) -> list[Path]:
    return [short_run / f"rank{rank}.sqlite" for rank in range(2)]


@pytest.fixture(scope="module")
def run(ranks: list[Path]) -> gpu_profile.Run:
    return gpu_profile.open(ranks)


@pytest.fixture(scope="module")
def findings(run: gpu_profile.Run) -> RunFindings:
    return run.findings()


def test_ranks_and_tables(run: gpu_profile.Run) -> None:
    assert run.ranks == (0, 1)
    assert {"cuda_gpu_kern_sum", "step_sum", "step_trace"} <= set(run.tables())


def test_a_table_is_that_of_stats(run: gpu_profile.Run, ranks: list[Path], tmp_path: Path) -> None:
    words = [*(f"--report={path}" for path in ranks), "--by=rank", "--format=json"]
    shown = invoke("stats", *words, "--table=cuda_gpu_kern_sum", directory=tmp_path)
    (rows,) = json.loads(shown.stdout).values()
    table = run.table("cuda_gpu_kern_sum", by="rank")
    assert [tuple(row.values()) for row in rows] == list(table.rows)


def test_findings_are_those_of_diagnose(
    findings: RunFindings, ranks: list[Path], tmp_path: Path
) -> None:
    words = [f"--report={path}" for path in ranks]
    shown = invoke("diagnose", *words, "--format=json", directory=tmp_path)
    document = json.loads(shown.stdout)
    assert document["findings"] == [finding.as_json() for finding in findings]
    assert {"plan": document["plan"]} == findings.describe_plan()
    assert document["plan"]["items"]
    assert len(findings) == len(findings.findings) > 0


@pytest.mark.further
def test_printed_results_are_those_of_the_verbs(
    run: gpu_profile.Run, findings: RunFindings, ranks: list[Path], tmp_path: Path
) -> None:
    words = [f"--report={path}" for path in ranks]
    shown = invoke("diagnose", *words, directory=tmp_path)
    assert shown.stdout.strip() == str(findings)
    shown = invoke("stats", *words, "--table=step_sum", directory=tmp_path)
    assert str(run.table("step_sum")).splitlines()[0] == "step_sum"
    assert [line.split() for line in str(run.table("step_sum")).splitlines()] == [
        line.split() for line in shown.stdout.splitlines()
    ]


def test_an_empty_table_says_why(run: gpu_profile.Run) -> None:
    table = run.table("module_sum")
    assert table.rows == ()
    assert table.hint
    assert str(table) == f"module_sum: {table.hint}\n"
    assert "--annotate" in table._repr_html_()


def test_a_run_without_findings_says_so(findings: RunFindings) -> None:
    nothing = dataclasses.replace(findings, findings=())
    assert "Nothing found that is worth the time." in nothing._repr_html_()
    assert "no such events" not in nothing._repr_html_()


def test_steps_are_numbered_on_each_rank(run: gpu_profile.Run) -> None:
    steps = run.steps().to_pandas()
    assert steps.groupby("Rank")["Step"].max().nunique() == 1
    first = steps[steps.Rank == 0]
    assert (first["Start (ns)"].diff().dropna() == first["Duration (ns)"].shift().dropna()).all()


def test_pandas_and_arrow_hold_the_same(run: gpu_profile.Run) -> None:
    table = run.table("cuda_gpu_mem_time_sum")
    frame, arrow = table.to_pandas(), table.to_arrow()
    assert list(frame.columns) == arrow.column_names == [str(column) for column in table.columns]
    assert frame.to_dict("records") == arrow.to_pylist()
    assert len(frame) == len(table.rows)


def test_a_run_compared_with_itself_passes(run: gpu_profile.Run) -> None:
    whole = gpu_profile.open(RECORDED)
    assert whole.compare(whole).verdict == "pass"
    with pytest.raises(SettingsError, match="needs another run"):
        run.compare()


def test_a_rank_that_cannot_be_read_is_a_warning_and_fails_a_comparison(
    run: gpu_profile.Run, ranks: list[Path], tmp_path: Path
) -> None:
    for path in ranks:
        shutil.copy(path, tmp_path)
    (tmp_path / "rank1.sqlite").write_bytes(b"no report")
    with (
        pytest.warns(UserWarning, match="1 of 2 reports left out"),
        pytest.warns(UserWarning, match="left out: .*rank1"),
    ):
        damaged = gpu_profile.open(tmp_path)
    assert damaged.ranks == (0,)
    with pytest.raises(ReportError, match="1 of 2 reports of the new run cannot be read"):
        run.compare(damaged)


def test_a_directory_with_one_of_two_ranks_fails_a_comparison(
    run: gpu_profile.Run, ranks: list[Path], tmp_path: Path
) -> None:
    shutil.copy(ranks[0], tmp_path)
    record = RunRecord(id="train-1", launcher="docker", command=("python",), ranks=(0, 1))
    (tmp_path / "run.json").write_text(record.to_json())
    with pytest.raises(ReportError, match="no report of rank 1"):
        gpu_profile.open(tmp_path).compare(run)
    alone = gpu_profile.open(ranks[0])
    assert alone.compare(alone).verdict == "undecided"


def test_a_packed_report_is_unpacked_to_the_limit_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNPACK_LIMIT_GB", "0")
    with pytest.raises(ReportError, match="unpacks to more than 0 GB"):
        gpu_profile.open(RECORDED)


def test_a_run_is_found_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no run 'train'"):
        gpu_profile.open("train", report_dir=tmp_path)


@pytest.mark.parametrize("name", ["kern_sum", ""])
def test_an_unknown_table_is_refused(run: gpu_profile.Run, name: str) -> None:
    with pytest.raises(SettingsError, match="no table is called"):
        run.table(name)


def test_a_grouping_that_a_table_lacks_is_refused(run: gpu_profile.Run) -> None:
    with pytest.raises(SettingsError):
        run.table("step_sum", by="stream")


def test_names_are_escaped_in_a_notebook() -> None:
    from gpu_profile.table import Column

    shown = RunTable("<t>", (Column("Name"),), (("<script>\x1b[2J</script>",),))._repr_html_()
    assert "<script>" not in shown
    assert "\x1b" not in shown


def test_the_import_is_cheap() -> None:
    check = "import sys, gpu_profile; sys.exit('numpy' in sys.modules or 'boto3' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
