"""The help by subject, and of each verb, at 80 and at 50 columns."""

import shlex
import sys
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.cli.help_text import help as help_text
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.table import SUBJECTS, VERBS, find_verb
from gpu_profile.cli.tasks import make_collection, refuse_bad_command_line
from gpu_profile.cli.verb import Verb
from gpu_profile.command import Command, Result
from gpu_profile.settings.places import ROOT
from tests.further import further
from tests.invoked import invoke


def start_script(*words: str) -> Result:
    """Run it as ./inv does."""
    start = ("env", f"--chdir={ROOT}", "COLUMNS=80", sys.executable, "-m", "gpu_profile.cli.start")
    return process.run(Command(argv=(*start, *words)))


def test_messages_name_the_script_that_was_typed() -> None:
    refused = start_script("diagnos")
    assert "Did you mean diagnose? `./inv --list` has all" in refused.stderr


@pytest.mark.parametrize("words", [(), further(("--help",)), ("help",)])
def test_each_way_to_the_help_shows_verbs_by_subject(words: tuple[str, ...]) -> None:
    shown = start_script(*words)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == "Usage: ./inv VERB [flags] [-- COMMAND]"
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= {v.name for v in VERBS}
    assert [title for title in SUBJECTS.values() if f"{title}:" not in lines] == []
    assert "--prompt-for-sudo-password" not in shown.stdout


def test_each_way_to_the_help_of_a_verb_shows_its_flags(tmp_path: Path) -> None:
    ways = (("profile", "--help"), ("--help", "profile"), ("help", "profile"), ("profile", "-h"))
    texts = {invoke(*words, directory=tmp_path, COLUMNS="80").stdout for words in ways}
    (text,) = texts
    assert text.startswith("Usage: invoke profile [flags] -- COMMAND\n")
    assert "Example: invoke profile --mount . -- python3 train.py\n" in text
    for line in (
        "  --nodes N ",
        "  --preset light|comm|serve|full",
        "  --env NAME[=VALUE] ",
        "  --ddp ",
    ):
        assert line in text
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles[0] == "Flags:"
    assert {"Where it runs:", "What nsys records:", "Settings:"} < set(titles)


@pytest.mark.further
def test_a_flag_s_text_has_its_default_and_the_command_that_was_typed() -> None:
    drill, profile = (
        " ".join(start_script(verb, "--help").stdout.split()) for verb in ("drill", "profile")
    )
    assert "how many kernels; default: 3 " in drill
    assert "until the job is ended; default: 300 " in drill
    assert "nothing until `./inv record` asks; default: start " in profile
    assert "default: one a GPU, two without GPUs --env" in profile, "no default is said twice"


def test_a_job_s_own_help_is_its_own(tmp_path: Path) -> None:
    """What stands after -- is no flag of ours."""
    planned = invoke("profile", "--dry-run", "--", "prog", "--help", directory=tmp_path)
    assert "prog --help" in planned.stdout
    assert "Usage" not in planned.stdout


@pytest.mark.parametrize("columns", [50, 80])
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """But names of flags, and lines to copy."""
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = [help_text.render_program_help(VERBS), *map(help_text.render_verb_help, VERBS)]
    lines = [line for text in texts for line in text.splitlines() if len(line) > columns]
    assert [line for line in lines if not line.startswith(("Example: ", "  invoke "))] == []


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_example_of_a_verb_is_valid(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["invoke", *shlex.split(verb.example or verb.name)]
    assert argv[1] == verb.name
    monkeypatch.setattr("sys.argv", argv)
    refuse_bad_command_line(make_collection(VERBS), argv)


def test_each_verb_has_a_subject_and_each_flag_one_group() -> None:
    assert {verb.module.partition(".")[0] for verb in VERBS} == set(SUBJECTS)
    groups = {option.name: option.group for option in ProfileOptions.list_options()}
    assert (groups["ddp"], groups["trace"], groups["host"]) == (
        "",
        "What nsys records",
        groups["on"],
    )


def test_words_of_a_wrong_help_are_told(tmp_path: Path) -> None:
    refused = invoke("help", "stat", directory=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no verb 'stat'. Did you mean stats?" in refused.stderr
    assert find_verb("stats").takes_command is False
