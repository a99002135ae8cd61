"""Run directories: names, records, and finding them again."""

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.runs import record
from gpu_profile.runs.record import ReportSummary, RunRecord

NOW = datetime(2026, 11, 21, 3, 15, tzinfo=timezone.utc)
RUN = RunRecord(
    id="train-1",
    launcher="docker",
    command=("python3", "/train.py"),
    handle="docker://train-1",
    ranks=(0, 1),
    kinds=("nvtx",),
    reports=(ReportSummary(file="a", rank=0, host="h", bytes=3, events={"nvtx": 2}),),
)


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        (("python3", "/work/train.py", "--x"), "", "train-20261121-031500"),
        (("./a.out",), "", "a-out-20261121-031500"),
        (("python3",), "My Run; echo", "my-run-echo-20261121-031500"),
        (("python3",), "7b", "run-7b-20261121-031500"),
        (("python3",), "…", "run-20261121-031500"),
        (("python3",), "x" * 99, "x" * 30 + "-20261121-031500"),
    ],
)
def test_a_run_id_is_a_dns_label(command: tuple[str, ...], name: str, expected: str) -> None:
    assert record.run_id(command, NOW, name) == expected
    assert len(expected) <= 63


@pytest.mark.parametrize("name", ["a_b", "My Run", "7b", "…", "Latest", "x_" * 30, "train.py"])
def test_a_run_is_found_by_each_name_that_it_may_be_given(name: str, tmp_path: Path) -> None:
    run_id = record.run_id(("x",), NOW, name)
    record.save_run(dataclasses.replace(RUN, id=run_id), record.create_run(tmp_path, run_id))
    assert record.find_run(tmp_path, name).name == run_id
    assert record.find_run(tmp_path, run_id).name == run_id


def test_a_run_is_found_by_its_name_as_typed_with_its_time(tmp_path: Path) -> None:
    run_id = record.run_id(("x",), NOW, "a_b")
    record.save_run(dataclasses.replace(RUN, id=run_id), record.create_run(tmp_path, run_id))
    assert record.find_run(tmp_path, "a_b-20261121-031500").name == run_id


def test_an_unknown_run_lists_its_directory_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    list_entries = Path.iterdir

    def count_listings(directory: Path) -> Iterator[Path]:
        listed.append(directory)
        return iter(list_entries(directory))

    monkeypatch.setattr(Path, "iterdir", count_listings)
    with pytest.raises(SettingsError, match=r"no run 'nothing' in "):
        record.find_run(tmp_path, "nothing")
    assert listed == [tmp_path]


def test_no_run_is_named_as_the_latest_one() -> None:
    with pytest.raises(
        SettingsError, match="--name latest is taken: --run latest means the last run"
    ):
        record.run_id(("x",), NOW, "latest")


def test_two_runs_of_one_second_get_two_directories(tmp_path: Path) -> None:
    assert [record.create_run(tmp_path, "a").name for _ in range(3)] == ["a", "a-2", "a-3"]


def test_a_directory_removed_meanwhile_is_named_with_the_way_on(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"gone is gone.*invoke fetch --job docker://train-1"):
        record.save_run(RUN, tmp_path / "gone")


def test_a_record_survives_the_round_trip(tmp_path: Path) -> None:
    record.save_run(RUN, tmp_path)
    assert record.load_run(tmp_path) == RUN
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_name_means_its_latest_run(tmp_path: Path) -> None:
    for name in ("a-20261121-101500", "a-20261121-101501", "a-20261121-101501-2", "a-b-20261122-1"):
        record.save_run(dataclasses.replace(RUN, id=name), record.create_run(tmp_path, name))
    assert record.find_run(tmp_path, "a").name == "a-20261121-101501-2"
    for unknown in ("a-2026", ".", "b"):
        with pytest.raises(SettingsError, match="no run"):
            record.find_run(tmp_path, unknown)


def test_a_run_is_found_by_id_by_handle_and_as_the_latest(tmp_path: Path) -> None:
    directory = record.create_run(tmp_path, "train-1")
    record.save_run(RUN, directory)
    for wanted in ("train-1", "docker://train-1", "", "latest"):
        assert record.find_run(tmp_path, wanted) == directory


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is not a run record"), ("{}", "is not a run record"), ('{"schema": 2}', "another")],
)
def test_a_foreign_record_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(SettingsError, match=said):
        record.load_run(tmp_path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no runs"):
        record.find_run(tmp_path)
    with pytest.raises(SettingsError, match="does not exist"):
        record.create_run(tmp_path / "none", "a")
    with pytest.raises(SettingsError, match="holds no run"):
        record.load_run(tmp_path)
