"""Which runs `reports --prune` removes: ended ones of this user, and only after showing them."""

import dataclasses
import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import files
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.runs.job_note import JobNote, list_tags, mark_stopped, write_note
from gpu_profile.runs.prune import OldRuns, find_old_runs, measure_folder, parse_age, remove_runs
from gpu_profile.runs.record import RunRecord, find_run, save_run
from gpu_profile.verbs.jobs.tag_run import tag_run
from tests.invoked import invoke, reporting_here

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
RUN = RunRecord(id="x", launcher="host", command=("train",), phase="done", cleaned=True)
NONE = timedelta(0)


def make_run(report_dir: Path, name: str, days: int, **changes: Any) -> Path:
    """A run directory with one report of 1000 bytes, made in the order of the calls."""
    directory = report_dir / name
    directory.mkdir()
    started = (NOW - timedelta(days=days)).isoformat()
    save_run(dataclasses.replace(RUN, id=name, started_at=started, **changes), directory)
    (directory / "rank0.h.nsys-rep").write_bytes(b"x" * 1000)
    return directory


def test_old_runs_but_the_latest(tmp_path: Path) -> None:
    old = [make_run(tmp_path, f"a{days}", days) for days in (50, 40, 31, 2)]
    assert find_old_runs(tmp_path, NOW, 0, timedelta(days=30)).removable == tuple(old[:3])
    assert find_old_runs(tmp_path, NOW, 2, timedelta(days=30)).removable == tuple(old[:2])
    assert find_old_runs(tmp_path, NOW, 1, NONE).removable == tuple(old[:3])
    assert find_old_runs(tmp_path, NOW, 9, NONE).removable == ()


def test_what_may_still_be_needed_is_spared(tmp_path: Path) -> None:
    make_run(tmp_path, "going", 50, phase="running", cleaned=False)
    make_run(tmp_path, "fetching", 50, phase="fetching", cleaned=False)
    (make_run(tmp_path, "damaged", 50) / "run.json").write_text("{")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(make_run(elsewhere, "far", 50))
    ended = make_run(tmp_path, "failed", 50, phase="failed", cleaned=False)
    old = find_old_runs(tmp_path, NOW, 0, NONE)
    assert (old.removable, old.spared_count) == ((ended,), 4)


def test_a_run_whose_process_was_killed_before_its_job_began_is_old(tmp_path: Path) -> None:
    directory = make_run(tmp_path, "train-1", 50, phase="submitting", cleaned=False)
    write_note(directory, JobNote(handle="docker://train-1", followed=True))
    lock = files.lock_directory(directory)
    assert lock is not None
    assert find_old_runs(tmp_path, NOW, 0, NONE).removable == ()
    os.close(lock)
    assert find_old_runs(tmp_path, NOW, 0, NONE).removable == (directory,)
    draft = make_run(tmp_path, "other", 50) / ".new-x"
    draft.mkdir()
    os.utime(draft, (1, 1))
    reporting_here(tmp_path)
    done = invoke("reports", "--prune", "--older=1d", "--keep=1", "--yes", directory=tmp_path)
    assert done.returncode == 0, done.last_line
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env", "other"]
    assert not draft.exists()


def test_a_record_without_a_time_is_as_old_as_its_file(tmp_path: Path) -> None:
    directory = make_run(tmp_path, "a", 0)
    save_run(dataclasses.replace(RUN, id="a"), directory)
    os.utime(directory / "run.json", (NOW.timestamp() - 5 * 86400,) * 2)
    assert find_old_runs(tmp_path, NOW, 0, timedelta(days=4)).removable == (directory,)
    assert find_old_runs(tmp_path, NOW, 0, timedelta(days=6)).removable == ()


def test_a_directory_that_changed_hands_is_not_removed(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    mine, theirs = make_run(tmp_path, "mine", 1), make_run(tmp_path, "theirs", 1)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(ToolError, match=f"{theirs} is not yours any more"):
        remove_runs([mine, theirs])
    assert not mine.exists()
    assert theirs.exists()


def test_a_link_in_a_run_is_removed_and_not_followed(tmp_path: Path) -> None:
    directory = make_run(tmp_path, "a", 1)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"x" * 5000)
    (directory / "link").symlink_to(tmp_path / "kept")
    assert measure_folder(directory) < 4000
    remove_runs([directory])
    assert (tmp_path / "kept" / "file").exists()


@pytest.mark.parametrize("text", ["30", "d", "-1d", "30 d", "1.5d", "30m", "999999d"])
def test_an_age_that_is_none(text: str) -> None:
    with pytest.raises(SettingsError, match="is not an age"):
        parse_age(text)


def test_the_verb_shows_asks_and_removes(tmp_path: Path) -> None:
    reporting_here(tmp_path)
    runs = [make_run(tmp_path, f"train-{number}", 60) for number in range(3)]
    unasked = invoke("reports", "--prune", "--keep=1", directory=tmp_path)
    assert unasked.returncode == 2
    assert "train-0" in unasked.stdout
    assert "train-2" not in unasked.stdout
    assert unasked.stderr.splitlines()[-1].startswith("error: nothing was removed.")
    tried = invoke("reports", "--prune", "--older=30d", "--dry-run", directory=tmp_path)
    assert tried.returncode == 0, tried.last_line
    assert all(run.exists() for run in runs)
    done = invoke("reports", "--prune", "--older=30d", "--keep=1", "--yes", directory=tmp_path)
    assert done.returncode == 0, done.last_line
    assert [run.exists() for run in runs] == [False, False, True]
    assert "removed 2 runs" in done.stderr
    none = invoke("reports", "--prune", "--older=30d", "--keep=1", "--yes", directory=tmp_path)
    assert none.returncode == 0, none.last_line
    assert none.stdout == "old runs: none, so nothing is removed\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prune",), "--prune does not know which runs are old. Use --older 30d"),
        (("--older=30d",), "--keep and --older are for --prune. Add --prune"),
        (("--prune", "--older=x"), "--older 'x' is not an age"),
        (("--prune", "--keep=-1"), "--keep -1 is not understood"),
    ],
)
def test_refusals(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    make_run(reporting_here(tmp_path), "train-1", 60)
    refused = invoke("reports", *words, directory=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert (tmp_path / "train-1").exists()


def test_a_tag_names_one_run_and_keeps_it(tmp_path: Path) -> None:
    """`compare --base main` reads the run of a tag; pruning leaves it."""
    first, second = make_run(tmp_path, "a-1", 50), make_run(tmp_path, "a-2", 40)
    place = reporting_here(tmp_path)
    done = invoke("reports", "--tag=main", "--run=a-1", directory=place)
    assert (done.returncode, done.stderr) == (0, "main is a-1\n")
    assert find_run(tmp_path, "main") == first
    assert find_old_runs(tmp_path, NOW, 0, NONE) == OldRuns((second,), 1)
    done = invoke("reports", "--tag=main", directory=place)
    assert done.stderr == "main is a-2, which was a-1 before\n"
    assert find_run(tmp_path, "main") == second
    rows = json.loads(invoke("reports", "--format=json", directory=place).stdout)["runs"]
    assert [row["Tags"] for row in rows] == ["", "main"]
    assert invoke("reports", "--untag=main", directory=place).returncode == 0
    for words, reason in (
        (("--untag=main",), "no run is tagged 'main'"),
        (("--tag=a-1",), "a run has this name"),
        (("--tag=main", "--run=b"), "no run 'b'"),
        (("--run=a-1",), "--run is for --tag and --trend"),
    ):
        done = invoke("reports", *words, directory=place)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr


def test_a_job_cannot_tag_its_run(tmp_path: Path) -> None:
    """The tag stands beside the run directory; a job writes into it only."""
    directory = make_run(tmp_path, "a-1", 1)
    tag_run(tmp_path, "main", directory)
    assert [path.name for path in directory.iterdir()] == ["run.json", "rank0.h.nsys-rep"]
    mark_stopped(directory)
    assert list_tags(directory) == ("main",)
