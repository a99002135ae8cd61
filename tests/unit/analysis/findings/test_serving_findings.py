"""Findings about engines: what is planted in a synthetic server is named with its cost."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.serving.marks import DECODE
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.our_tables.temporal_breakdown import merge_breakdown
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Scope
from tests.generator.serving import Server, serve
from tests.generator.sharded import Late, decode_sharded
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.synthetic import MS


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
    # 2 ms a step, but for 3 of 116 after which no request was left.
    assert gap.cost_ms == pytest.approx(2.0 * 113 / 116, rel=0.01)
    assert "2.00 of 2.77 ms of a decode step between the copy of its tokens" in gap.evidence[0]
    # Half a second without requests is no gap of the host.
    assert "longest gap 2.0" in "".join(gap.evidence)


def test_time_without_requests_is_not_idle(tmp_path: Path) -> None:
    run = serve(Server(requests=16, gap_us=15, bursts=2, chunk=512))
    with open_report(str(run.save(tmp_path))) as database:
        table = merge_breakdown([states_of(database, Scope())])
        replay = replay_reports(database)
    unasked, stalls, launches = (
        int(str(table.column(name)[0])) for name in ("No Request", "Idle Stall", "Idle Launch")
    )
    assert unasked > 400 * MS
    assert stalls + launches < 20 * MS
    # The replay has no pause in its steps, which would be one of them.
    assert not isinstance(replay, str)
    assert replay.step_ms < 5


def test_processes_without_kernels_are_named(tmp_path: Path) -> None:
    run = serve(Server(requests=16, gap_us=15, copies=1, chunk=128))
    recording = run.rank.recording
    other = (1 << 48) | (77 << 24)  # of another user of the machine
    recording.add("ThreadNames", recording.name("kthreadd"), 10, other | 77)
    for number, name in ((100, "python3"), (300, "VLLM::APIServer"), (400, "VLLM::Worker_TP1")):
        process = (1 << 48) | (number << 24)
        recording.add("ThreadNames", recording.name(name), 10, process | number)
        recording.add("DIAGNOSTIC_EVENT", 0, 1, "Common injection library initialized", process)
        if name == "VLLM::Worker_TP1":
            for row in [event for event in recording.rows["NVTX_EVENTS"] if event[2] == 59]:
                recording.add("NVTX_EVENTS", *row[:3], process | number, *row[4:])
    with open_report(str(run.save(tmp_path))) as database:
        diagnosis = diagnose_reports(database)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.cause) == ("capture", "no_gpu_work")
    assert "process 400 (VLLM::Worker_TP1) marks " in finding.evidence[0]
    line = "without GPU work: process 300 (VLLM::APIServer), process 400 (VLLM::Worker_TP1)"
    assert line in list(diagnosis.overview.to_lines())


def list_costs(diagnosis: Diagnosis) -> dict[str, float]:
    return {finding.kind: finding.cost_ms for finding in diagnosis.findings}


def test_many_small_copies_are_named_with_their_cost(tmp_path: Path) -> None:
    server = Server(requests=16, gap_us=15, copies=40, chunk=128)
    diagnosis = diagnose(server, tmp_path)
    (finding,) = diagnosis.findings
    # One of 40 calls of 6 us is left.
    assert list_costs(diagnosis) == {"many_small_copies": pytest.approx(39 * 0.006, rel=0.02)}
    assert finding.evidence == (
        "rank 0: 40 copies to the GPU an iteration, of 200 bytes in the median",
    )


def test_waits_for_small_copies_are_no_other_finding(tmp_path: Path) -> None:
    server = Server(requests=16, gap_us=15, copies=40, held_us=25, chunk=128)
    diagnosis = diagnose(server, tmp_path)
    # Of each copy but one: 4 us before it, 10 us of its own, and 25 us until the host goes on.
    assert list_costs(diagnosis) == {"many_small_copies": pytest.approx(39 * 0.039, rel=0.1)}
    assert isinstance(diagnosis.plan, Plan)
    assert diagnosis.plan.items[0].text == "small copies"


def test_prompts_that_hold_up_tokens_are_named(tmp_path: Path) -> None:
    server = Server(requests=24, gap_us=15, copies=1, chunk=2000, engine="SGLang")
    diagnosis = diagnose(server, tmp_path)
    assert set(list_costs(diagnosis)) == {"mixed_steps"}
    (finding,) = diagnosis.findings
    assert "ms at p99, and 0.79" in finding.evidence[0]
    assert "(vLLM: --max-num-batched-tokens, SGLang: " in finding.advice
    # The times between tokens hold 0.135 ms a step more with prompts.
    assert 0.10 <= finding.cost_ms <= 0.20


def test_batches_without_a_graph_are_named_with_their_sizes(tmp_path: Path) -> None:
    slow = Server(requests=24, largest=2, product_us=30, host_us=40, every_us=3000)
    run = serve(replace(slow, gap_us=15, copies=1))
    with open_report(str(run.save(tmp_path))) as database:
        diagnosis = diagnose_reports(database)
    missed = [
        iteration.batch
        for iteration in run.iterations
        if iteration.kind == "decode" and iteration.batch > 2
    ]
    (finding,) = (finding for finding in diagnosis.findings if finding.kind == "graph_miss")
    assert f"batches of 3 to {max(missed)} without, batches of 1 to 2" in finding.evidence[1]
    assert f"{len(missed)} of " in finding.evidence[0]
    assert finding.replayed_ms is not None
    assert finding.replayed_ms <= finding.at_most_ms


def test_the_replayed_iterations_are_like_all(tmp_path: Path) -> None:
    """The first ones of a server are mostly prompts."""
    run = serve(Server(requests=24, gap_us=15, copies=1, chunk=512, every_us=3000))
    with open_report(str(run.save(tmp_path))) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str)
    decodes = float(np.mean(replay.graph.ranks[0].kinds == DECODE))
    assert decodes == pytest.approx(
        np.mean([iteration.kind == "decode" for iteration in run.iterations]), abs=0.1
    )


ORDINAL = 3


@pytest.mark.parametrize(
    ("late_us", "cause", "ranks", "lost_ms"),
    [
        (lambda rank, _, layer: 300 * (rank == 1 and layer == 0), "host", (1,), 0.3),
        (lambda rank, _, layer: 60 * (rank == 1 and layer == ORDINAL), "compute", (1,), 0.06),
        (lambda rank, now, layer: 60 * (now % 2 == rank and layer == ORDINAL), "spread", (0, 1), 0),
        (lambda rank, _, layer: 0, "", (), 0),
    ],
    ids=["host", "compute", "by turns", "even"],
)
def test_ranks_that_wait_inside_graphs_are_named_with_the_place(
    tmp_path: Path, late_us: Late, cause: str, ranks: tuple[int, ...], lost_ms: float
) -> None:
    run = decode_sharded(2, 40, late_us)
    with open_report(str(run[0].recording.save(tmp_path / "rank0.host0.sqlite"))) as database:
        diagnosis = diagnose_reports(database)
    skews = [finding for finding in diagnosis.findings if finding.kind == "rank_skew"]
    assert [(finding.cause, finding.ranks) for finding in skews] == [(cause, ranks)] * bool(cause)
    assert not [finding for finding in diagnosis.findings if finding.kind == "straggler"]
    assert "waits for the GPU" not in diagnosis.to_text()
    for finding in skews:
        text = "\n".join(finding.evidence)
        assert "6 collectives of a graph, aligned by their place in 38 launches" in text
        worst = 1 if cause == "host" else ORDINAL + 1
        assert f"most at collective {worst} of a launch" in text
        if lost_ms:
            assert finding.replayed_ms == pytest.approx(lost_ms, rel=0.05)
