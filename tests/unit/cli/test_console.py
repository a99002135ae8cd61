"""The console command `gpu-profile`, and the verbs in another project's tasks.py."""

import json
import os
from pathlib import Path

import pytest
from invoke.config import Config

from gpu_profile import __version__
from gpu_profile.cli.tasks import HomeConfig
from gpu_profile.command import Result
from gpu_profile.settings.places import ROOT
from tests.forked import run_python, start_python
from tests.further import further
from tests.invoked import invoke

OWN_TASKS = """
from invoke import Collection, task
from gpu_profile.cli import tasks as gp

@task
def deploy(c, stage="test"):
    print(f"deployed to {stage}")

namespace = Collection(deploy)
namespace.add_collection(gp, name="gp")
"""


def run_console(*words: str, directory: Path) -> Result:
    """Run what a wheel installs as `gpu-profile`."""
    script = directory / "gpu-profile"
    script.write_text("from gpu_profile.cli.start import main\nmain()\n")
    return run_python((str(script), *words), directory, make_environment(directory))


def make_environment(home: Path) -> dict[str, str]:
    """The variables of a user whose configuration and state are below `home`."""
    return {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE", "CACHE")}


def run_own_tasks(*words: str, directory: Path) -> Result:
    (directory / "tasks.py").write_text(OWN_TASKS)
    return run_python(("-m", "invoke", *words), directory, make_environment(directory))


def test_the_command_has_every_verb_but_the_clone_s(tmp_path: Path) -> None:
    clone = invoke("--list", directory=tmp_path).stdout.splitlines()
    command = run_console("--list", directory=tmp_path).stdout.splitlines()
    assert [line for line in clone if line.split()[:1] != ["check"]][1:] == command[1:]


def test_the_command_says_its_version(tmp_path: Path) -> None:
    assert run_console("--version", directory=tmp_path).stdout == f"gpu-profile {__version__}\n"


def test_the_clone_s_script_has_the_same_version_and_invoke_s_completion(tmp_path: Path) -> None:
    start = ("-m", "gpu_profile.cli.start")
    shown = run_python((*start, "--version"), ROOT, {})
    assert shown.stdout == f"gpu-profile {__version__}\n"
    completion = run_python((*start, "--print-completion-script=bash"), ROOT, {}).stdout
    assert " invoke inv\n" in completion


def test_a_home_directory_of_another_user_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0)
    monkeypatch.setenv("HOME", str(home))
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        with pytest.raises(PermissionError, match=r"\.invoke\."):
            Config()
        assert "run" in HomeConfig()
    finally:
        os.seteuid(user)


def test_the_end_collects_no_garbage_among_what_was_loaded(tmp_path: Path) -> None:
    script = tmp_path / "gpu-profile"
    script.write_text(
        "import atexit, gc\nfrom gpu_profile.cli.start import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1_000))\nmain()\n"
    )
    ended = run_python((str(script), "--version"), tmp_path, make_environment(tmp_path))
    assert ended.stdout.splitlines()[1:] == ["True"]


def test_help_has_the_options_that_mean_something(tmp_path: Path) -> None:
    shown = run_console("--help", directory=tmp_path).stdout
    assert shown.startswith("Usage: gpu-profile VERB [flags] [-- COMMAND]\n")
    assert "--version" in shown
    assert "--prompt-for-sudo-password" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("profil",), "there is no verb 'profil'. Did you mean profile? `gpu-profile --list` has"),
        (("check",), "check is a verb of the repository. Use ./inv check in a clone.\n"),
        (("profile", "--nam", "x"), "profile has no --nam. Did you mean --name?"),
        (("profile", "--nodes=two"), "--nodes 'two' is not a number"),
        (("diagnose", "--control-ms=x"), "--control-ms 'x' is not a number. Use 0, 2.5"),
        (("diagnose", "--report=a", "--run=x"), "--run and --report name two things to read"),
        (("diagnose", "--report"), "--report wants a value. `gpu-profile diagnose --help` says"),
        (("diagnose", "--report=", "--run=x"), "--report is empty. Give it a value, or leave it"),
        (("k8s.injector",), "k8s.injector wants ACTION. `gpu-profile k8s.injector --help` says"),
        (("--lst",), "gpu-profile has no --lst. Did you mean --list?"),
        (("--help", "stat"), "there is no verb 'stat'. Did you mean stats?"),
        (("config", "--set", "NOPE=1"), "`gpu-profile config` lists all keys"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    refused = run_console(*words, directory=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert message in refused.stderr


@pytest.mark.further
def test_a_removed_working_directory_is_one_line(tmp_path: Path) -> None:
    code = "import os; os.rmdir(os.getcwd()); from gpu_profile.cli.start import main; main()"
    words = ("-c", code, "profile", "--dry-run", "--mount=.", "--", "a")
    (tmp_path / "removed").mkdir()
    environment = {**make_environment(tmp_path), "PYTHONPATH": str(ROOT)}
    done = start_python(words, tmp_path / "removed", environment)
    assert (done.returncode, done.stderr) == (
        2,
        "error: this directory was removed. Change to another.\n",
    )


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_shell_gets_its_script_and_the_candidates(shell: str, tmp_path: Path) -> None:
    script = run_console(f"--print-completion-script={shell}", directory=tmp_path).stdout
    assert "gpu-profile --complete -- " in script
    words = ("--complete", "--", "gpu-profile", "profile", "--preset", "c")
    assert run_console(*words, directory=tmp_path).stdout == "comm\n"


def test_another_shell_is_refused(tmp_path: Path) -> None:
    refused = run_console("--print-completion-script=tcsh", directory=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == "error: there is no completion for 'tcsh'. Use bash, fish, zsh.\n"


def test_another_tasks_file_takes_the_verbs(tmp_path: Path) -> None:
    words = ("deploy", "--stage=live", "gp.trace-file", "json:dumps", "json:loads", "--domain=io")
    done = run_own_tasks(*words, directory=tmp_path)
    assert done.stdout.startswith("deployed to live\n"), done.last_line
    assert '"loads"' in done.stdout
    listed = run_own_tasks("--list", directory=tmp_path).stdout
    assert "gp.profile" in listed
    assert "gp.k8s.injector" in listed
    assert "gp.check" not in listed


def test_the_words_after_the_dashes_reach_a_verb_of_another_tasks_file(tmp_path: Path) -> None:
    words = ("gp.profile", "--on=host", "--dry-run", "--gpus=0", "--", "python3", "a b.py", "-x")
    done = run_own_tasks(*words, directory=tmp_path)
    assert done.returncode == 0, done.last_line
    assert "a b.py" in done.stdout


def test_config_says_which_file_was_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DJANGO_SETTINGS_MODULE=site.settings\nIMAGE=theirs\n")
    shown = run_console("config", "--format=json", directory=tmp_path)
    assert json.loads(shown.stdout)["IMAGE"] == {"value": "gpu-profile", "source": "default"}
    assert shown.stderr.splitlines() == [
        ".env is not read: DJANGO_SETTINGS_MODULE is not a setting of gpu-profile",
        "settings file: none",
    ]
    written = run_console("init", "--user", directory=tmp_path)
    own = tmp_path / "config" / "gpu-profile" / ".env"
    assert written.stdout == f"{own} is written; `gpu-profile config` shows what is in force\n"
    shown = run_console("config", "--format=json", directory=tmp_path)
    assert json.loads(shown.stdout)["IMAGE"]["source"].startswith(f"{own}:")
    named = run_console("config", "--format=json", "--env-file=.env", directory=tmp_path)
    assert named.returncode == 2
    assert ".env:1: unknown key 'DJANGO_SETTINGS_MODULE'" in named.stderr


@pytest.mark.parametrize(
    "words", ["reports", further("config --format=json"), further("render render")]
)
def test_a_misspelt_key_is_a_note_of_each_verb(tmp_path: Path, words: str) -> None:
    (tmp_path / ".env").write_text("REPORT_DIRR=/tmp\n")
    note = ".env is not read: REPORT_DIRR is not a setting of gpu-profile. Did you mean REPORT_DIR?"
    assert run_console(*words.split(), directory=tmp_path).stderr.count(note) == 1


def test_init_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DEBUG=on\n")
    refused = run_console("init", directory=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: .env is there already.")
    assert (tmp_path / ".env").read_text() == "DEBUG=on\n"
    assert run_console("init", "--output=gpu.env", directory=tmp_path).returncode == 0
    assert run_console("config", "--env-file=gpu.env", directory=tmp_path).returncode == 0
