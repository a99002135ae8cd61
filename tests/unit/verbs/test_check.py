"""check: unit tests on all CPUs, tests of engines by group, and the words after `--` to both."""

from pathlib import Path

import pytest

from gpu_profile.verbs.machine.check import (
    failed_checks,
    hash_scripts,
    list_seconds,
    list_test_commands,
    name_tests_left_out,
)

UNIT, LIVE = "pytest tests/unit tests/fuzz", "pytest tests/image tests/live"


def test_unit_tests_run_on_all_cpus_and_tests_of_engines_by_their_groups() -> None:
    commands = list_test_commands(("docker",), ("-k", "slurm"), live=False)
    assert list(commands) == [UNIT, LIVE]
    assert "--forks=auto" in commands[UNIT].argv
    assert {"--numprocesses=auto", "--dist=loadscope"} <= set(commands[LIVE].argv)
    for name in (UNIT, LIVE):
        assert commands[name].argv[-3:] == ("--require=docker", "-k", "slurm")


def test_tests_of_engines_run_where_asked_for_and_are_named_where_not() -> None:
    without, live = (list_test_commands((), (), live=live) for live in (False, True))
    assert list(without) == [UNIT]
    assert without[UNIT].argv[-2:] == ("-m", "not recorded and not further")
    assert "tests marked recorded or further; ./inv check --live runs" in name_tests_left_out(
        without
    )
    assert list(live) == [UNIT, LIVE]
    assert "-m" not in live[UNIT].argv[3:]
    assert name_tests_left_out(live) == ""
    assert name_tests_left_out(list_test_commands((), ("tests/fuzz",), live=False)) == ""


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        (("tests/unit/test_process.py::test_a_name",), ()),
        (("tests/unit", "-x"), ("--forks=auto",)),
        (("tests/unit/verbs", "tests/fuzz"), ("--forks=auto",)),
        (("tests/unit/test_process.py", "tests/unit/test_job.py"), ("--forks=auto",)),
        (("tests/live/ssh",), ("--numprocesses=auto", "--dist=loadscope")),
        (("tests/unit", "tests/live/ssh"), ("--numprocesses=auto", "--dist=loadscope")),
        (("-m", "drawn", "tests/fuzz", "--forks=0"), ("--forks=auto",)),
    ],
)
def test_files_and_folders_are_the_whole_selection_and_folders_run_on_all_cpus(
    words: tuple[str, ...], processes: tuple[str, ...]
) -> None:
    commands = list_test_commands((), words, live=True)
    assert list(commands) == ["pytest"]
    head, chosen = commands["pytest"].argv[: -len(words)], commands["pytest"].argv[-len(words) :]
    assert chosen == words
    assert set(processes) <= set(head)
    several = ("--forks", "--numprocesses")
    assert bool(processes) is any(word.startswith(several) for word in head)


@pytest.mark.parametrize(
    ("codes", "failed"),
    [
        ({"mypy": 0, UNIT: 0, LIVE: 0}, []),
        ({"mypy": 0, UNIT: 5, LIVE: 0}, []),
        ({"mypy": 0, UNIT: 5, LIVE: 5}, [UNIT, LIVE]),
        ({"mypy": 1, UNIT: 0, LIVE: 2}, ["mypy", LIVE]),
    ],
)
def test_no_test_selected_fails_only_where_no_run_has_any(
    codes: dict[str, int], failed: list[str]
) -> None:
    assert failed_checks(codes) == failed


def test_scripts_are_checked_again_where_one_of_them_or_what_it_sources_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ci").mkdir()
    sourced = tmp_path / ".ci" / "parts.sh"
    sourced.write_text("one() { true; }\n")
    before = hash_scripts(tmp_path)
    (tmp_path / ".ci" / "rows.py").write_text("no script")
    assert hash_scripts(tmp_path) == before
    (tmp_path / ".shellcheckrc").write_text("disable=SC2312\n")
    settings = hash_scripts(tmp_path)
    sourced.write_text("one() { false; }\n")
    assert len({before, settings, hash_scripts(tmp_path)}) == 3


def test_the_seconds_of_each_part_are_said() -> None:
    line = list_seconds({"ruff check": (0, 0.4), UNIT: (1, 70.2), "mypy": (0, 20.6)}, 71.4)
    assert line == f"== ruff check 0 s, {UNIT} 70 s, mypy 21 s: 71 s in all\n"
