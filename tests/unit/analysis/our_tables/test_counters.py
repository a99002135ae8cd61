"""GPU metrics, GPU memory and the host's functions: tables, findings and the page."""

from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import OURS
from gpu_profile.table import Table
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank, Recording, add_cpu_sample, add_metrics

LOG = ("write_log", "/home/user/log.py", 7)
STEP = ("&lt;module&gt;", "/home/user/train.py", 30)


def table(name: str, recording: Recording, folder: Path) -> Table:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return OURS[name].table(database)


def last_end(recording: Recording) -> int:
    return max(int(str(row[1])) for row in recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"])


def with_metrics(**values: int) -> Recording:
    recording = Training(ranks=1).record()
    add_metrics(recording, 50, last_end(recording), **values)
    return recording


def test_metrics_are_summed_by_gpu(tmp_path: Path) -> None:
    metrics = table("gpu_metric_sum", with_metrics(SMs_Active=80, Tensor_Active=0), tmp_path)
    assert [row[1:] for row in metrics.rows] == [(0, 80.0, 80.0, 80.0, 80.0, "%", "SMs Active")]


@pytest.mark.parametrize(
    ("tensor", "sms", "causes"),
    [
        (30, 90, set[str]()),
        (0, 90, {"tensor_cores"}),
        (30, 20, {"few_sms"}),
        (1, 10, {"tensor_cores", "few_sms"}),
    ],
)
def test_metrics_tell_what_kernels_leave_unused(
    tensor: int, sms: int, causes: set[str], tmp_path: Path
) -> None:
    recording = with_metrics(SMs_Active=sms, Tensor_Active=tensor)
    with Database.open(recording.save(tmp_path / "run.sqlite")) as database:
        findings = diagnose_reports(database).findings
    assert {finding.cause for finding in findings} == causes
    assert {finding.kind for finding in findings} <= {"unused_gpu"}
    for finding in findings:
        assert f"SMs active {sms} %" in finding.evidence[-1]


def test_memory_has_its_peak_and_when(tmp_path: Path) -> None:
    """100 MB, 300 more for a while; what was reserved before the recording counts too."""

    def act(rank: Rank) -> None:
        rank.allocate(300)
        rank.work(100)
        rank.allocate(300, free=True)

    training = Training(ranks=1, steps=3, after=act)
    recording = training.record()
    events = recording.rows["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    first = events[0]
    events.insert(0, (-5, first[1], first[2], 50_000_000, 2, 1))
    memory = table("gpu_memory_sum", recording, tmp_path)
    assert [str(column) for column in memory.columns][3:6] == [
        "Peak (MB)",
        "Peak At (ns)",
        "End (MB)",
    ]
    assert memory.rows == ((0, 0, "Device", 300.0, first[0], 0.0, 3, 4),)


def sampled() -> Recording:
    def work(rank: Rank) -> None:
        start = rank.now
        rank.work(12_000)
        rank.sample(start, LOG, STEP)
        add_cpu_sample(rank, start, ("write", "/lib/libc.so.6"), ("0x1", "/usr/bin/python3"))
        rank.allocate(100)

    recording = Training(ranks=1, after=work).record()
    add_metrics(recording, 50, last_end(recording), SMs_Active=80, Tensor_Active=30)
    return recording


def test_functions_by_samples(tmp_path: Path) -> None:
    functions = table("host_function_sum", sampled(), tmp_path)
    assert set(functions.column("Language")) == {"Python", "C/C++"}
    rows = {str(row[6]): row for row in functions.rows}
    assert rows["write_log (log.py)"][1] == 100.0
    assert rows["<module> (train.py)"][1:5] == (0.0, 0, 0, 100.0)
    assert int(str(rows["write_log (log.py)"][3])) > 0
    assert "[python3] (python3)" in rows


def test_the_page_shows_host_metrics_and_memory(tmp_path: Path) -> None:
    report = sampled().save(tmp_path / "run.sqlite")
    write_page([ReportSource(str(report))], tmp_path / "a.html", redactor=Redactor())
    html = (tmp_path / "a.html").read_text()
    for anchor in ("classes", "host", "metrics", "memory"):
        assert f'<section id="{anchor}"' in html
        assert f'href="#{anchor}"' in html
    assert "write_log (log.py): " in html
    assert "&lt;module&gt; (train.py)" in html
    assert "/home/user" not in html
    assert "The peak is 1.20 GB at " in html  # a rank that is alone is not named


def test_without_such_data_the_page_has_no_such_parts(tmp_path: Path) -> None:
    report = Training(ranks=1).save(tmp_path)
    write_page([ReportSource(str(report))], tmp_path / "a.html")
    html = (tmp_path / "a.html").read_text()
    assert not any(f'<section id="{anchor}"' in html for anchor in ("host", "metrics", "memory"))
