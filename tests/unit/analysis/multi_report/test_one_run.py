"""Reports of two runs, or one of them twice, are not read as one run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import gpu_profile
from gpu_profile.analysis.multi_report.clues import EventTimes
from gpu_profile.analysis.multi_report.nccl_ranks import Membership
from gpu_profile.analysis.multi_report.one_run import Evidence, find_contradiction
from gpu_profile.analysis.multi_report.ranks import Identity, Process
from gpu_profile.cli.options.reading import (
    DiagnoseOptions,
    HtmlOptions,
    StatsOptions,
    TimelineOptions,
)
from gpu_profile.cli.options.shared import ReadOptions
from gpu_profile.errors import ReportError
from gpu_profile.verbs.reading.open_run import ReportChoice
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training

UTC, SECOND = 1_790_000_000_000_000_000, 1_000_000_000
DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"


def evidence(
    rank: int, begin_s: float = 0, *members: Membership, world: int = 0, name: str = ""
) -> Evidence:
    """A rank that records 10 s. Host and process id are those of all others, as in containers."""
    process = Process(7, "0", {}, frozenset(members))
    identity = Identity(name or f"rank{rank}.sqlite", "host", world, (process,), world)
    start = UTC + int(begin_s * SECOND)
    return Evidence(identity, start, EventTimes(rank, 10 * SECOND + rank, 99, 5 + rank))


def test_ranks_that_record_together_are_one_run() -> None:
    assert find_contradiction([evidence(0), evidence(1, 30), evidence(2, 60)]) == ""
    assert find_contradiction([evidence(0)]) == ""
    assert find_contradiction([replace(evidence(0), utc=0), evidence(1)]) == ""
    nothing = replace(evidence(2), times=EventTimes())
    assert find_contradiction([evidence(0), nothing, nothing]) == ""


def test_a_recording_twice() -> None:
    twin = evidence(2, 86_400)
    copy = replace(twin, identity=replace(twin.identity, name="copy.sqlite"), utc=UTC)
    why = find_contradiction([evidence(0), twin, copy])
    assert why == "rank2.sqlite and copy.sqlite are one recording: their events have equal times"


def test_recordings_that_do_not_overlap() -> None:
    why = find_contradiction([evidence(0), evidence(1, 86_400), evidence(2)])
    assert why.startswith("rank1.sqlite begins 86,390 s after rank0.sqlite ended")


def test_windows_of_a_rank_are_one_recording() -> None:
    first = [evidence(rank, 0, name=f"rank{rank}.h.1.sqlite") for rank in (0, 1)]
    later = [evidence(rank + 2, 900, name=f"rank{rank}.h.2.sqlite") for rank in (0, 1)]
    assert find_contradiction([*first, *later]) == ""
    assert find_contradiction([first[0], later[1]]).startswith("rank1.h.2.sqlite begins")
    copy = replace(first[0], identity=replace(first[0].identity, name="rank0.h.3.sqlite"))
    assert "are one recording" in find_contradiction([*first, copy])


def test_communicators() -> None:
    one, other = Membership(11, 0, 2), Membership(12, 1, 2)
    assert find_contradiction([evidence(0, 0, one), evidence(1, 0, one._replace(rank=1))]) == ""
    why = find_contradiction([evidence(0, 0, one), evidence(1, 0, one)])
    assert why == "rank0.sqlite and rank1.sqlite are both rank 0 of a communicator"
    two = [evidence(0, 0, one, world=2), evidence(1, 0, other, world=2)]
    why = "rank0.sqlite and rank1.sqlite share no NCCL communicator"
    assert find_contradiction(two) == why
    # Two tensor parallel groups of four ranks share none, and their reports need not tell of four.
    assert find_contradiction([evidence(0, 0, one), evidence(1, 0, other)]) == ""
    groups = [evidence(0, 0, one, world=4), evidence(1, 0, other, world=4)]
    assert find_contradiction(groups) == ""
    unknown = one._replace(identity=0)
    assert find_contradiction([evidence(0, 0, unknown), evidence(1, 0, unknown)]) == ""


@pytest.mark.recorded
def test_the_recorded_directory_holds_two_runs() -> None:
    """Four ranks with a report each, and a run of four ranks in one report, 22 minutes apart."""
    hint = "Name the reports of one run; --together"
    with pytest.raises(ReportError, match=rf"begins 1,326 s after all-ranks.* ended.*{hint}"):
        gpu_profile.open(DATA)
    assert len(gpu_profile.open(DATA, together=True).ranks) == 8
    assert gpu_profile.open(DATA / f"rank{rank}.sqlite.gz" for rank in range(4)).notes == ()


def test_the_verbs_refuse_two_runs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    report = Training(ranks=2, steps=6, layers=5).record().save(run / "rank0.sqlite")
    shutil.copy(report, run / "rank1.sqlite")
    line = "error: rank0.sqlite and rank1.sqlite are one recording: their events have equal times."
    done = invoke("diagnose", f"--report={run}", directory=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.splitlines()[-1].startswith(
        f"{line} Name the reports of one run; --together"
    )
    done = invoke("diagnose", f"--report={run}", "--together", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    done = invoke("compare", f"--base={report}", f"--new={run}", directory=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.splitlines()[-1] == f"{line} Name the reports of one run."


@pytest.mark.parametrize("options", [StatsOptions, DiagnoseOptions, HtmlOptions, TimelineOptions])
def test_each_verb_that_reads_a_run_takes_the_users_word(options: type[ReadOptions]) -> None:
    assert ReportChoice.from_options(options(together=True)).together  # type: ignore[call-arg]
    assert not ReportChoice.from_options(options()).together
