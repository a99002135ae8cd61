"""The candidates for a command line that is being typed."""

import json
from pathlib import Path

import pytest

from gpu_profile.cli.completion import complete
from gpu_profile.cli.program import CLONE_ONLY
from gpu_profile.cli.table import VERBS
from gpu_profile.declared.launchers import LAUNCHERS

INSTALLED = [verb for verb in VERBS if verb.name not in CLONE_ONLY]
WITH_S = [name for name in LAUNCHERS if name.startswith("s")]
RUNS = ["train-2", "train-1", "$(touch pwned)", "two words"]


def list_words(line: str) -> list[str]:
    words = line.split(" ")
    return [each.word for each in complete.list_candidates(words, INSTALLED, lambda: RUNS)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("prof", ["profile"]),
        ("build push ima", ["image-size"]),
        ("check", []),
        ("--ver", ["--version"]),
        ("--help sta", ["status", "stats"]),
        ("profile --moun", ["--mount"]),
        ("profile --preset ", ["light", "comm", "serve", "full"]),
        ("profile --on ", list(LAUNCHERS)),
        ("profile --on=s", [f"--on={name}" for name in WITH_S]),
        ("profile --on = s", WITH_S),  # as bash cuts it
        ("profile --on =", list(LAUNCHERS)),
        ("profile --dry-run buil", ["build"]),
        ("profile --name buil", []),
        ("profile --name build --pres", ["--preset"]),
        ("build --set INSTALL_MP", ["INSTALL_MPI="]),
        ("build --set INSTALL_MPI=", ["INSTALL_MPI=true", "INSTALL_MPI=false"]),
        ("build --set INSTALL_MPI = f", ["false"]),
        ("build --set = INSTALL_MPI = f", ["false"]),
        ("build --set=INSTALL_MPI=f", ["--set=INSTALL_MPI=false"]),
        ("build --set NOPE=", []),
        ("diagnose --run train-", ["train-2", "train-1"]),
        ("diagnose --run TR", ["TRain-2", "TRain-1"]),
        ("fetch --job=train_", ["--job=train_2", "--job=train_1"]),
        ("fetch --job ", ["train-2", "train-1"]),
        ("compare --base train-1 --new ", ["train-2", "train-1"]),
        ("profile --mount . -- python3 te", []),
        ("profile -- --", []),
        ("trace-file js", []),
        ("nope --x --", ["--help", "--list", "--print-completion-script", "--version"]),
    ],
)
def test_a_line_has_these_candidates(line: str, words: list[str]) -> None:
    assert list_words(line) == words


def test_nothing_typed_has_every_verb() -> None:
    assert list_words("") == [verb.name for verb in INSTALLED]


def test_only_runs_of_this_user_are_candidates(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "train-1").mkdir()
    (tmp_path / "train-1" / "run.json").write_text(json.dumps({}))
    assert complete.list_run_ids({"REPORT_DIR": str(tmp_path)}) == ["train-1"]
    assert complete.list_run_ids({"REPORT_DIR": str(tmp_path / "none")}) == []
