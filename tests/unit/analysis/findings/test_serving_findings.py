"""Findings about engines: what is planted in a synthetic server is named with its cost."""

from pathlib import Path

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.store.files.open_report import open_report
from tests.generator.serving import Server, serve
from tests.reading import diagnose_reports


def diagnose(server: Server, folder: Path) -> Diagnosis:
    with open_report(str(serve(server).save(folder))) as database:
        return diagnose_reports(database)


def test_a_healthy_server_gets_nothing(tmp_path: Path) -> None:
    diagnosis = diagnose(Server(requests=16, gap_us=15, copies=1, chunk=128), tmp_path)
    assert diagnosis.to_text().startswith("Nothing found that is worth the time.\n")


def test_host_work_between_decode_steps_is_named_with_its_cost(tmp_path: Path) -> None:
    diagnosis = diagnose(Server(requests=16, gap_us=2000, bursts=2, chunk=512), tmp_path)
    (gap,) = diagnosis.findings
    assert (gap.kind, gap.cause, gap.ranks) == ("decode_gap", "host", (0,))
    assert 1.98 <= gap.cost_ms <= 2.02
    assert "2.00 of 2.77 ms of a decode step between the copy of its tokens" in gap.evidence[0]
    # Half a second without requests is no gap of the host.
    assert "longest gap 2.0" in "".join(gap.evidence)
