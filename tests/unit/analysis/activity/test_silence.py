"""Marks that go on after the last GPU operation: lost events, or work of the CPU."""

from pathlib import Path

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.our_tables.capture_health import collect_health, merge_health
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import MS, Rank, Recording, ranks_of

TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL")

TSL = 2  # the domain of XLA's ranges


def diagnosed(recording: Recording, folder: Path) -> Diagnosis:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return diagnose_reports(database)


def lose_events(recording: Recording, end: int) -> None:
    """nsys loses each call of CUDA from this time (ns) on, and what it launched."""
    calls, kernels = (recording.rows[table] for table in TABLES)
    calls[:] = [row for row in calls if int(str(row[0])) < end]
    known = {row[4] for row in calls}
    kernels[:] = [row for row in kernels if row[4] in known]


def begin(rank: Rank) -> None:
    """As a recording of a whole program does."""
    rank.call("cuInit", 10)


def run_module(rank: Rank, name: str) -> None:
    """XLA's range around a run of a compiled module."""
    start = rank.now
    rank.work(100)
    for number in range(4):
        rank.kernel(50, f"{name}_{number}")
    rank.synchronize()
    text = f"XlaModule:#hlo_module={name},program_id=7#"
    rank.recording.add("NVTX_EVENTS", start, rank.now, 59, rank.thread, TSL, text)


def test_steps_that_go_on_without_gpu_work_are_lost_events(tmp_path: Path) -> None:
    recording = Training(ranks=1, steps=20, before=begin).record()
    steps = [row for row in recording.rows["NVTX_EVENTS"] if row[5] == "step"]
    lose_events(recording, int(str(steps[12][0])))
    diagnosis = diagnosed(recording, tmp_path)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.cause) == ("capture", "lost_events")
    assert "the recording of the GPU ends before 8 of 20 steps: at 0." in finding.evidence[0]
    assert "--record manual" in finding.advice
    step = diagnosis.overview.step
    assert step is not None
    assert step.count + step.left_out == 12


def test_a_table_lists_what_marks_show_as_lost(tmp_path: Path) -> None:
    recording = Training(ranks=1, steps=20, before=begin).record()
    steps = [row for row in recording.rows["NVTX_EVENTS"] if row[5] == "step"]
    lose_events(recording, int(str(steps[12][0])))
    with Database.open(recording.save(tmp_path / "run.sqlite")) as database:
        table = merge_health([collect_health(database, Scope())])
    assert "ends before 8 of 20 steps" in str(table.rows[0][-1])


def test_a_loop_that_was_lost_as_a_whole_is_not_judged_by_its_start_up(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    begin(rank)
    rank.recording.add("NVTX_EVENTS", 0, None, 75, rank.thread, TSL, "TSL")
    for _ in range(30):
        run_module(rank, "gemm")
    loop = rank.now
    for _ in range(20):
        run_module(rank, "jit_step")
    whole = diagnosed(rank.recording, tmp_path)
    assert whole.overview.step is not None
    assert not any(finding.kind == "capture" for finding in whole.findings)
    (tmp_path / "run.sqlite").unlink()
    lose_events(rank.recording, loop)
    lost = diagnosed(rank.recording, tmp_path)
    assert lost.overview.step is None
    assert "lost_events" in [finding.cause for finding in lost.findings]
    (note,) = (note for note in lost.unjudged if note.startswith("single steps"))
    assert "ends before 20 of 50 runs of XLA modules" in note


def test_a_program_that_ends_on_the_cpu_lost_nothing(tmp_path: Path) -> None:
    """It evaluates a model on the CPU, with the same ranges of modules, and writes checkpoints."""

    def classify(rank: Rank) -> None:
        rank.range("classifier", rank.now - MS // 10)

    recording = Training(ranks=1, steps=20, before=begin, after=classify).record()
    ends = (int(str(row[1])) for row in recording.rows["CUPTI_ACTIVITY_KIND_RUNTIME"])
    rank = Rank(recording, 0, now=max(ends))
    for _ in range(30):
        start = rank.now
        rank.work(5000)
        rank.range("classifier", start)
        rank.range("evaluate", start)
        rank.range("save checkpoint", start)
    assert not any(f.kind == "capture" for f in diagnosed(recording, tmp_path).findings)


def test_events_that_nsys_failed_to_import_are_lost(tmp_path: Path) -> None:
    """It counts what CUPTI made. With a name missing alone, all of that is in the report."""
    recording = Training(ranks=1).record()
    made = sum(len(recording.rows[table]) for table in TABLES)
    recording.add(
        "DIAGNOSTIC_EVENT", 0, 1, f"Number of CUPTI events produced: \t{made}, buffers: 5"
    )
    recording.add("DIAGNOSTIC_EVENT", 1, 2, "Error when processing events: Source ID=\n at")
    assert diagnosed(recording, tmp_path).findings == ()
    (tmp_path / "run.sqlite").unlink()
    del recording.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][:40]
    (finding,) = diagnosed(recording, tmp_path).findings
    line = f"run.sqlite: nsys failed to import 40 of {made} events of CUDA"
    assert (finding.cause, finding.evidence[-1]) == ("lost_events", line)
    assert "--nvtx-domain-exclude TSL" in finding.advice


def test_a_loop_of_few_runs_among_those_of_an_autotuner_is_lost(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    begin(rank)
    rank.recording.add("NVTX_EVENTS", 0, None, 75, rank.thread, TSL, "TSL")
    for _ in range(200):
        run_module(rank, "gemm")
    loop = rank.now
    for _ in range(6):
        run_module(rank, "jit_step")
    lose_events(rank.recording, loop)
    assert diagnosed(rank.recording, tmp_path).overview.step is None
