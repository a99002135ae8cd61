"""Run directories of others are listed and left alone; a bad record costs one row."""

import dataclasses
import json
import os
import stat
from pathlib import Path

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.runs import owner, record
from gpu_profile.runs.record import RunRecord
from tests.invoked import invoke

RUN = RunRecord(id="train-1", launcher="docker", command=("python3",), handle="docker://train-1")
NOBODY = 65534


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A REPORT_DIR with an own run `mine` and a later one, `theirs`, of another user."""
    for name in ("mine", "theirs"):
        directory = record.create_run(tmp_path, name)
        record.save_run(dataclasses.replace(RUN, id=name, handle=f"docker://{name}"), directory)
    try:
        for path in (tmp_path / "theirs" / "run.json", tmp_path / "theirs"):
            os.chown(path, NOBODY, NOBODY)
    except PermissionError:
        pytest.skip("only root can make a directory of another user")
    return tmp_path


def test_a_run_is_its_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        directory = record.create_run(tmp_path, "train-1")
        record.save_run(RUN, directory)
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "run.json").stat().st_mode) == 0o600


def test_another_users_run_is_never_the_latest_nor_obeyed(runs: Path) -> None:
    assert record.find_run(runs) == runs / "mine"
    assert [path.name for path in record.list_runs(runs)] == ["mine"]
    for wanted in ("theirs", "docker://theirs"):
        with pytest.raises(SettingsError, match=r"is a run of \w+, not yours|no run"):
            record.find_run(runs, wanted)


def test_a_record_of_another_user_makes_a_foreign_run(runs: Path) -> None:
    path = runs / "mine" / "run.json"
    os.chown(path, NOBODY, NOBODY)
    assert record.list_runs(runs) == ()
    whose = f"a run with {owner.owner_name(path)}'s run.json"
    assert owner.describe_foreign(runs / "mine", path) == whose
    theirs = runs / "theirs"
    assert owner.describe_foreign(theirs, theirs / "run.json").startswith("a run of ")


def test_a_link_to_another_users_run_is_foreign(runs: Path) -> None:
    (runs / "linked").symlink_to("theirs")
    assert {path.name for path in record.list_all_runs(runs)[1]} == {"linked", "theirs"}


def test_reports_lists_it_as_foreign_and_verbs_write_nothing_there(runs: Path) -> None:
    set_runs = ("--set", f"REPORT_DIR={runs}")
    listed = invoke("reports", "--format=json", *set_runs, directory=runs)
    rows = {row["Run"]: row for row in json.loads(listed.stdout)["runs"]}
    assert (rows["mine"]["Phase"], rows["theirs"]["Phase"]) == ("submitting", "foreign")
    before = sorted(path.name for path in (runs / "theirs").iterdir())
    for verb in ("html", "timeline"):
        refused = invoke(verb, f"--run={runs}/theirs", *set_runs, directory=runs)
        assert refused.returncode == 2, refused.stderr
        assert "where nothing is written" in refused.stderr
    for verb in ("status", "stop", "fetch", "logs"):
        refused = invoke(verb, "--job=theirs", *set_runs, directory=runs)
        assert refused.returncode == 2, refused.stderr
        assert "not yours" in refused.stderr
    assert sorted(path.name for path in (runs / "theirs").iterdir()) == before


def test_a_run_that_others_may_write_to_is_told_once(tmp_path: Path) -> None:
    directory = record.create_run(tmp_path, "train-1")
    record.save_run(dataclasses.replace(RUN, phase="done", cleaned=True), directory)
    directory.chmod(0o777)
    words = ("status", "--job=train-1", "--set", f"REPORT_DIR={tmp_path}")
    said = invoke(*words, directory=tmp_path)
    assert said.returncode == 0, said.stderr
    line = f"note: others may write to {directory}: `chmod -R go= {directory}`"
    assert said.stderr.count(line) == 1


BAD = {
    "empty": "{}",
    "a list": "[]",
    "deep": "[" * 20000,
    "numbers for words": json.dumps({**json.loads(RUN.to_json()), "command": [1, 2]}),
    "a baseline of something else": json.dumps({**json.loads(RUN.to_json()), "baseline": {"x": 1}}),
    "a text for a number": json.dumps({**json.loads(RUN.to_json()), "exit_code": "0"}),
    "reports that are none": json.dumps({**json.loads(RUN.to_json()), "reports": [1]}),
    "huge": " " * (5 << 20) + RUN.to_json(),
}


@pytest.fixture
def with_bad_records(tmp_path: Path) -> Path:
    record.save_run(RUN, record.create_run(tmp_path, "train-1"))
    for number, text in enumerate(BAD.values()):
        (record.create_run(tmp_path, f"bad-{number}") / "run.json").write_text(text)
    os.mkfifo(record.create_run(tmp_path, "bad-fifo") / "run.json")
    (record.create_run(tmp_path, "bad-zero") / "run.json").symlink_to("/dev/zero")
    (record.create_run(tmp_path, "bad-link") / "run.json").symlink_to("nowhere")
    return tmp_path


def test_each_bad_record_costs_one_row(with_bad_records: Path) -> None:
    words = ("reports", "--format=json", "--set", f"REPORT_DIR={with_bad_records}")
    listed = invoke(*words, directory=with_bad_records)
    assert listed.returncode == 0, listed.stderr
    rows = {row["Run"]: row["Phase"] for row in json.loads(listed.stdout)["runs"]}
    assert rows.pop("train-1") == "submitting"
    assert set(rows.values()) == {"damaged"}
    assert len(rows) == len(BAD) + 3
    assert record.find_run(with_bad_records, "docker://train-1").name == "train-1"


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_record_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(SettingsError) as refused:
        record.load_run(tmp_path)
    assert "run.json" in str(refused.value)


def test_a_report_dir_that_is_none_is_said(tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path / "file"):
        (tmp_path / "file").touch()
        said = invoke("reports", "--set", f"REPORT_DIR={place}", directory=tmp_path)
        assert said.returncode == 2
        assert "cannot be listed" in said.stderr


def test_a_run_of_the_first_version_is_read(tmp_path: Path) -> None:
    """As a407b15 wrote it under umask 022."""
    directory = tmp_path / "train-20261121-031500"
    directory.mkdir(mode=0o755)
    facts = {
        "file": "rank0.vm.nsys-rep",
        "rank": 0,
        "host": "vm",
        "bytes": 3,
        "events": {"nvtx": 2},
    }
    old = {
        **{"schema": 1, "id": directory.name, "launcher": "docker", "command": ["python3"]},
        **{"nsys": ["--trace=nvtx"], "handle": f"docker://{directory.name}", "phase": "done"},
        **{"image": "gpu-profile:latest", "started_at": "2026-11-21T03:15:00+00:00"},
        **{"seconds": {"run": 4}, "spec": {"resources": {"nodes": 1}, "env": []}},
        **{"versions": {"gpu-profile": "1"}, "ranks": [0], "kinds": ["nvtx"], "exit_code": 0},
        **{"error": "", "reports": [facts], "cleaned": True},
        "baseline": {"wall_s": 1.0, "profiled_wall_s": 1.1, "ratio": 1.1},
    }
    (directory / "run.json").write_text(json.dumps(old, indent=2) + "\n")
    (directory / "run.json").chmod(0o644)
    assert record.load_run(record.find_run(tmp_path)).baseline["ratio"] == 1.1
