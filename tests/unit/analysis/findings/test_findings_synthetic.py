"""One thing wrong at a time: what diagnose says, and that it says nothing else."""

import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from gpu_profile.analysis.activity.health import ReportHealth
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.rules.communication.straggler import list_guilty
from gpu_profile.analysis.findings.rules.gpu import capture
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training, nothing
from tests.unit.analysis.synthetic import Rank

ALL = (0, 1, 2, 3)


def diagnosed(training: Training, folder: Path) -> Diagnosis:
    with Database.open(training.save(folder)) as database:
        return diagnose_reports(database)


def told(diagnosis: Diagnosis) -> set[tuple[str, tuple[int, ...], str]]:
    return {(f.kind, f.ranks, f.cause) for f in diagnosis.findings}


def sleeps(rank: Rank) -> None:
    rank.work(12_000)


def copies(rank: Rank) -> None:
    rank.copy(200, gb_per_s=50)


def computes(rank: Rank) -> None:
    for _ in range(10):
        rank.kernel(300)


def copies_pageable(rank: Rank) -> None:
    rank.copy(20, gb_per_s=10, pageable=True)


def asks(rank: Rank) -> None:
    rank.synchronize()
    rank.work(60)


def loops(rank: Rank) -> None:
    for _ in range(30):
        rank.work(4)
        rank.kernel(2, "add")


def test_late_ranks_without_any_excess_stay_together() -> None:
    assert list_guilty([-2.0, -1.0]) == [0, 1]
    assert list_guilty([4.0, -1.0, 3.0, 0.1]) == [0, 2]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_healthy_run_is_told_nothing(ranks: int, tmp_path: Path) -> None:
    diagnosis = diagnosed(Training(ranks=ranks), tmp_path)
    assert diagnosis.findings == ()
    assert diagnosis.to_text().startswith("Nothing found")
    assert json.loads(diagnosis.to_json())["findings"] == []


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (Training(only={2: computes}), {("straggler", (2,), "compute")}),
        (Training(only={1: copies}), {("straggler", (1,), "copy")}),
        (
            Training(only={3: sleeps}),
            {("straggler", (3,), "data")},
        ),
        (Training(ranks=2, only={1: computes}), {("straggler", (1,), "compute")}),
        (Training(only={0: computes, 1: computes}), {("straggler", (0, 1), "compute")}),
        (Training(kernel_us=8, host_us=30, transfer_us=30), {("host_bound", ALL, "launch")}),
        (Training(data=sleeps), {("idle", ALL, "data")}),
        (Training(data=copies_pageable), {("pageable_copy", ALL, "pageable")}),
        (Training(layer=asks), {("synchronization", ALL, "sync")}),
        (
            Training(kernel_us=8, layers=30, layer=loops),
            {("tiny_kernels", ALL, "launch"), ("host_bound", ALL, "launch")},
        ),
        (Training(transfer_us=2000), {("exposed_communication", ALL, "transfer")}),
        (
            Training(data=lambda rank: rank.copy(8, gb_per_s=2)),
            {("low_bandwidth", ALL, "copy")},
        ),
    ],
    ids=[
        "compute straggler",
        "copy straggler",
        "host straggler",
        "one of two ranks",
        "two of four ranks",
        "host-bound",
        "data loading",
        "pageable copies",
        "synchronisation",
        "tiny kernels",
        "exposed transfer",
        "slow link",
    ],
)
def test_what_is_wrong_is_told_and_no_more(
    training: Training, expected: set[tuple[str, tuple[int, ...], str]], tmp_path: Path
) -> None:
    assert told(diagnosed(training, tmp_path)) == expected


@pytest.mark.parametrize(("megabytes", "slow"), [(400, False), (20, True)])
def test_all_reduces_far_under_nvlink(megabytes: float, slow: bool, tmp_path: Path) -> None:
    """2 ms a step for what DDP then copies out of its buckets: 300 or 15 GB/s of bus bandwidth."""
    training = Training(transfer_us=2000, after=lambda rank: rank.copy_on_device(megabytes))
    kinds = {(f.kind, f.cause) for f in diagnosed(training, tmp_path).findings}
    assert (("low_bandwidth", "links") in kinds) is slow


def test_an_advice_names_the_command_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/gpu-profile", "diagnose"])
    findings = diagnosed(Training(transfer_us=2000), tmp_path).findings
    (advice,) = (finding.advice for finding in findings if finding.kind == "exposed_communication")
    assert "(gpu-profile test --suite nccl)" in advice


def test_one_rank_with_a_slow_link(tmp_path: Path) -> None:
    def batch(rank: Rank) -> None:
        rank.copy(25, gb_per_s=12 if rank.rank == 1 else 50)

    findings = told(diagnosed(Training(data=batch), tmp_path))
    assert ("low_bandwidth", (1,), "copy") in findings
    assert findings <= {("low_bandwidth", (1,), "copy"), ("straggler", (1,), "copy")}


SHORT = Training(layers=8, transfer_us=30)
"""A step of two milliseconds, of which transfers are not worth to be told."""


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (replace(SHORT, data=lambda rank: rank.work(2200)), ("idle", "data")),
        (replace(SHORT, layer=lambda rank: rank.work(320)), ("host_bound", "launch")),
        (replace(SHORT, data=lambda rank: rank.work(1600)), None),
    ],
    ids=["one pause of 0.6 ms", "eight pauses of 0.1 ms", "a pause that is hidden"],
)
def test_in_a_step_of_two_milliseconds_one_long_pause_is_no_slow_launch(
    training: Training, expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    kinds = {(finding.kind, finding.cause) for finding in diagnosed(training, tmp_path).findings}
    assert kinds == ({expected} if expected else set())


@pytest.mark.parametrize(("host_us", "kinds"), [(230, {"host_bound"}), (150, set())])
def test_a_host_that_is_slower_than_its_gpu_is_told_also_if_it_asks_for_a_value(
    host_us: float, kinds: set[str], tmp_path: Path
) -> None:
    """Eight long kernels of a step follow upon eight short ones, before which the GPU idles."""

    def launches_short(rank: Rank) -> None:
        for _ in range(8):
            rank.work(host_us)
            rank.kernel(100)

    training = replace(SHORT, kernel_us=300, host_us=host_us, data=launches_short)
    asking = replace(training, after=Rank.item)
    told_kinds = {finding.kind for finding in diagnosed(asking, tmp_path).findings}
    assert told_kinds == {"synchronization", *kinds}


def test_launches_that_cost_a_tenth_are_told_although_less_is_idle_time(tmp_path: Path) -> None:
    """A launch takes 112 us for a kernel of 100 us: a tenth of the step is the host's."""
    training = Training(ranks=1, kernel_us=100, host_us=106)
    (finding,) = diagnosed(training, tmp_path).findings
    assert (finding.kind, finding.cause) == ("host_bound", "launch")
    assert finding.at_most_ms == pytest.approx(0.4, abs=0.05)


def test_a_host_that_is_slower_in_most_steps_is_told_although_some_steps_evaluate(
    tmp_path: Path,
) -> None:
    """Each launch takes a fifth longer than its kernel; every fifth step evaluates for 6 ms."""
    turn = count()

    def evaluates(rank: Rank) -> None:
        if next(turn) % 5 == 4:
            for _ in range(6):
                rank.kernel(1000, "evaluates")
        rank.item()

    training = Training(ranks=1, steps=31, layers=20, host_us=240, after=evaluates)
    kinds = {finding.kind for finding in diagnosed(training, tmp_path).findings}
    assert kinds == {"host_bound", "synchronization"}


def test_a_loader_that_is_a_little_slower_than_the_gpu_is_told(tmp_path: Path) -> None:
    """Its pause of 8.6 ms is 3 % longer than the rest of the step can hide: the host's lead is used
    up in the middle of the recording only, and then the GPU idles for a whole pause. Without the
    pauses a step takes 8.24 in place of 9.39 ms.
    """
    turn = count()

    def logs(rank: Rank) -> None:
        if next(turn) % 10 == 9:
            rank.item()

    training = Training(ranks=1, steps=20, data=lambda rank: rank.work(8600), after=logs)
    (finding,) = diagnosed(training, tmp_path).findings
    assert (finding.kind, finding.cause) == ("idle", "data")
    assert finding.cost_ms == pytest.approx(1.15, rel=0.25)
    assert any("most steps take the host" in line for line in finding.evidence)


@pytest.mark.parametrize("load_ms", [0, 12])
def test_a_rank_whose_host_is_late_by_more_kernels_computes_more(
    load_ms: float, tmp_path: Path
) -> None:
    """The hosts are slower than their GPUs, and rank 1 launches half as many kernels more."""

    def acts(rank: Rank) -> None:
        rank.work(1000 * load_ms)
        for _ in range(20 if rank.rank == 1 else 0):
            rank.work(60)
            rank.kernel(20)

    training = Training(ranks=2, kernel_us=20, host_us=60, transfer_us=30, data=acts)
    causes = {(f.kind, f.ranks): f.cause for f in diagnosed(training, tmp_path).findings}
    assert causes["straggler", (1,)] == "compute"


def test_a_rank_with_more_kernels_is_not_late_by_the_loader_that_all_wait_for(
    tmp_path: Path,
) -> None:
    def launches(rank: Rank) -> None:
        for _ in range(100):
            rank.work(40)
            rank.kernel(5, "add")

    def does_both(rank: Rank) -> None:
        sleeps(rank)
        launches(rank)

    training = Training(ranks=2, only={0: sleeps, 1: does_both})
    assert ("straggler", (1,), "host") in told(diagnosed(training, tmp_path))


def test_a_pause_in_every_second_step_of_two_milliseconds_is_told(tmp_path: Path) -> None:
    """The GPU idles for 0.8 ms of the pause; the host was ahead by the rest."""
    count = iter(range(1000))

    def loads(rank: Rank) -> None:
        rank.work(4600 if next(count) // 4 % 2 else 0)

    training = replace(SHORT, steps=24, data=loads)
    (finding,) = diagnosed(training, tmp_path).findings
    assert (finding.kind, finding.cause) == ("idle", "data")
    assert any("every 2nd step" in line for line in finding.evidence)


def test_the_straggler_costs_what_was_put_in(tmp_path: Path) -> None:
    (finding,) = diagnosed(Training(only={2: computes}), tmp_path).findings
    assert finding.at_most_ms == pytest.approx(3.0, rel=0.1)
    assert "rank 2 arrived last in 11 of 11 collectives" in finding.evidence


def test_a_delay_of_one_ranks_host_is_one_finding_with_where_its_time_goes(tmp_path: Path) -> None:
    """Rank 3 sleeps for 12 ms in its data phase: idle time on it, and waiting on the others."""
    (finding,) = diagnosed(Training(only={3: sleeps}), tmp_path).findings
    assert (finding.kind, finding.ranks) == ("straggler", (3,))
    assert any("while its host issued nothing" in line for line in finding.evidence)
    assert "rank 3: 100 % of it in range data" in finding.evidence


def test_a_host_that_is_slow_on_all_ranks_is_told_beside_a_slower_one(tmp_path: Path) -> None:
    """Each launch takes 60 us for 20 us of work, and 80 us on rank 1: the evidence has both."""

    def slower(rank: Rank) -> None:
        rank.work(20 if rank.rank == 1 else 0)

    training = Training(kernel_us=20, host_us=60, transfer_us=30, layer=slower)
    (finding,) = diagnosed(training, tmp_path).findings
    assert (finding.kind, finding.ranks) == ("straggler", (1,))
    assert finding.at_most_ms == pytest.approx(2.46, abs=0.05)
    (line,) = [line for line in finding.evidence if "the host, too, takes" in line]
    assert line.startswith("ranks 0, 2, 3: ")


@pytest.mark.parametrize("all_load", [True, False])
def test_a_loader_that_all_wait_for_is_told_beside_a_slower_one(
    all_load: bool, tmp_path: Path
) -> None:
    """Rank 1 waits for 24 ms of a step for its batch, of which the others wait for 12 ms, or 0."""

    def loads(rank: Rank) -> None:
        sleeps(rank)
        sleeps(rank)

    others = sleeps if all_load else nothing
    training = Training(ranks=2, only={0: others, 1: loads})
    (finding,) = diagnosed(training, tmp_path).findings
    assert finding.kind == "straggler"
    assert finding.at_most_ms == pytest.approx(16, abs=1)
    assert any("the host, too, takes" in line for line in finding.evidence) == all_load


def test_a_rank_that_waits_less_for_another_reason_is_no_straggler(tmp_path: Path) -> None:
    """Rank 1 computes for 3 ms more; rank 0 copies for 2 ms, so it waits for rank 1 for 1 ms."""
    training = Training(only={0: lambda rank: rank.copy(100, gb_per_s=50), 1: computes})
    finding, copies_late = diagnosed(training, tmp_path).findings
    assert (finding.kind, finding.ranks, finding.cause) == ("straggler", (1,), "compute")
    assert finding.evidence[0] == "rank 1 arrived last in 11 of 11 collectives"
    assert (copies_late.kind, copies_late.ranks) == ("exposed_copy", (0,))


@pytest.mark.parametrize("by_compute", [True, False])
def test_ranks_that_are_late_by_turns_are_no_stragglers(by_compute: bool, tmp_path: Path) -> None:
    """Each step another rank is late: nobody is to blame, but unequal work is told."""
    turn = dict.fromkeys(ALL, 0)

    def now_and_then(rank: Rank) -> None:
        turn[rank.rank] += 1
        if turn[rank.rank] % 4 == rank.rank:
            computes(rank) if by_compute else rank.copy(150, gb_per_s=50)

    diagnosis = diagnosed(Training(steps=24, data=now_and_then), tmp_path)
    late = [(each.ranks, each.cause) for each in diagnosis.findings if each.kind == "straggler"]
    assert late == ([((0, 1, 2, 3), "spread")] if by_compute else [])
    notes = [note for note in diagnosis.unjudged if "none of them comes last steadily" in note]
    assert bool(notes) != by_compute


def test_one_hiccup_makes_no_straggler(tmp_path: Path) -> None:
    steps = iter(range(100))

    def once(rank: Rank) -> None:
        if next(steps) == 7:
            rank.work(80_000)

    assert diagnosed(Training(only={1: once}), tmp_path).findings == ()


def test_lost_kernels_are_told(tmp_path: Path) -> None:
    recording = Training().record()
    kernels = recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    kernels[:] = [row for number, row in enumerate(kernels) if number % 20]
    with Database.open(recording.save(tmp_path / "lost.sqlite")) as database:
        findings = [f for f in diagnose_reports(database).findings if f.kind == "capture"]
    assert [(f.ranks, f.cause) for f in findings] == [(ALL, "lost_events")]


def test_no_idle_time_is_judged_on_a_rank_whose_kernels_were_lost(tmp_path: Path) -> None:
    recording = Training(ranks=2).record()
    kernels = recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    kernels[:] = [
        row
        for number, row in enumerate(kernels)
        if row[2] == 0 or number % 3 or number > len(kernels) - 90
    ]
    with Database.open(recording.save(tmp_path / "lost.sqlite")) as database:
        diagnosis = diagnose_reports(database)
    assert told(diagnosis) == {("capture", (1,), "lost_events")}
    (note,) = (note for note in diagnosis.unjudged if note.startswith("idle time on rank 1: "))
    assert note.endswith("kernel launches have no kernel in the recording")


def test_a_discarded_annotation_is_no_lost_event(tmp_path: Path) -> None:
    recording = Training().record()
    text = "2 NVTX annotations were discarded because they contained at least one invalid string"
    recording.add("DIAGNOSTIC_EVENT", 0, 2, text)
    with Database.open(recording.save(tmp_path / "nameless.sqlite")) as database:
        assert diagnose_reports(database).findings == ()


def test_nsys_own_word_of_loss_is_told_and_its_routine_warnings_are_not(tmp_path: Path) -> None:
    recording = Training().record()
    recording.add("DIAGNOSTIC_EVENT", 0, 2, "Not all CUDA events might have been collected.")
    with Database.open(recording.save(tmp_path / "fine.sqlite")) as database:
        assert diagnose_reports(database).findings == ()
    recording.add("DIAGNOSTIC_EVENT", 1, 2, "1200 CUDA events were dropped: see /tmp/a/b.log")
    with Database.open(recording.save(tmp_path / "dropped.sqlite")) as database:
        (finding,) = diagnose_reports(database).findings
    assert finding.evidence == ("dropped.sqlite: 1200 CUDA events were dropped: see (path)",)
    assert "--cuda-flush-interval" in finding.advice
    (tmp_path / "dropped.sqlite").rename(tmp_path / "rank0.node.2.sqlite")
    with Database.open(tmp_path / "rank0.node.2.sqlite") as database:
        (finding,) = diagnose_reports(database).findings
    assert "`invoke record " in finding.advice


def test_each_report_s_loss_has_its_advice() -> None:
    names = ("rank0.sqlite", "rank1.node.2.sqlite", "rank2.sqlite")
    reports = [ReportHealth(name, (), ("12 events were dropped",), 0) for name in names]
    (finding,) = capture.judge_capture([], reports).findings
    assert finding.advice == f"{capture.ADVICE} {capture.WINDOW_ADVICE}"


def test_what_was_queued_before_a_window_is_no_lost_event(tmp_path: Path) -> None:
    recording = Training(ranks=1).record()
    calls = recording.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
    del calls[: len(calls) // 10]
    with Database.open(recording.save(tmp_path / "window.sqlite")) as database:
        assert diagnose_reports(database).findings == ()
    del calls[len(calls) // 2 : len(calls) // 2 + len(calls) // 10]
    with Database.open(recording.save(tmp_path / "lost.sqlite")) as database:
        (finding,) = diagnose_reports(database).findings
    assert finding.cause == "lost_events"


def test_steps_without_ranges_are_found_by_their_kernels(tmp_path: Path) -> None:
    training = Training(step_range="", data=lambda rank: rank.kernel(50, "shuffle"))
    assert diagnosed(training, tmp_path).findings == ()


def test_json_has_the_promised_keys(tmp_path: Path) -> None:
    document = json.loads(diagnosed(Training(only={2: computes}), tmp_path).to_json())
    (finding,) = document["findings"]
    keys = ["kind", "ranks", "cause", "ms_per_step", "evidence", "advice"]
    assert list(finding) == [*keys, "at_most_ms_per_step"]
    assert finding["kind"] in RULES


def test_a_report_without_gpu_work_is_not_judged(tmp_path: Path) -> None:
    rank = Rank(Training(steps=0).record(), 0)
    rank.work(1000)
    rank.range("step", 0)
    with Database.open(rank.recording.save(tmp_path / "host.sqlite")) as database:
        diagnosis = diagnose_reports(database)
    assert diagnosis.findings == ()
    assert diagnosis.unjudged[0] == "anything: the reports hold no GPU work"
