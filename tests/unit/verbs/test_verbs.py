"""The verbs as users type them: each is there, refuses in one line, and keeps its exit code."""

import importlib
import json
import os
import sys
import typing
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.cli.table import VERBS
from gpu_profile.cli.verb import Verb
from gpu_profile.command import Command, Result
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.runs import record
from gpu_profile.runs.record import RunRecord
from gpu_profile.settings.places import ROOT
from tests.further import keep_first
from tests.invoked import argv, invoke


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_row_has_its_function(verb: Verb) -> None:
    module = importlib.import_module(f"gpu_profile.verbs.{verb.module}")
    function = getattr(module, verb.function)
    assert typing.get_type_hints(function) == {"options": verb.options_class, "return": type(None)}
    assert verb.doc.endswith(".")
    assert len({option.name for option in verb.options}) == len(verb.options)


def test_all_verbs_are_listed(tmp_path: Path) -> None:
    listed = invoke("--list", directory=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert {verb.name for verb in VERBS} <= set(listed.stdout.split())


def test_a_list_of_verbs_imports_no_flags_and_no_launcher() -> None:
    """`invoke --list` takes 1.03 of the time of a bare Invoke program."""
    script = "import sys; sys.argv = ['invoke', '--list']; import tasks; print(*sys.modules)"
    done = process.run(Command(argv=("env", f"--chdir={ROOT}", sys.executable, "-c", script)))
    modules = [name for name in done.stdout.split() if name.startswith("gpu_profile.")]
    assert "gpu_profile.cli.table" in modules, done.stderr
    heavy = (".verbs", ".launchers.", ".cli.options", ".kinds", ".process", ".redact")
    assert [name for name in modules if any(part in name for part in heavy)] == []


def test_config_shows_value_and_source(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("IMAGE=mine\nhttp_proxy=http://me:hush@proxy:1\n")
    shown = invoke("config", "--format", "json", "--set", "VERSION=7", directory=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert '"value": "mine"' in shown.stdout
    assert '"source": "command line"' in shown.stdout
    assert "hush" not in shown.stdout


def test_a_rendered_dockerfile_holds_no_password_of_a_url(tmp_path: Path) -> None:
    chosen = ("BASE_IMAGE=debian:13", "NSYS_SOURCE=nvidia", "NSYS_URL=https://u:hunter2@mirror/x")
    words = (word for setting in chosen for word in ("--set", setting))
    done = invoke("render", *words, directory=tmp_path)
    assert 'ARG NSYS_URL="https://mirror/x"' in done.stdout, done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_an_error_holds_no_password_of_a_url(tmp_path: Path) -> None:
    """Nobody listens on port 9 of this machine."""
    nsys = ("NSYS_SOURCE=nvidia", "NSYS_URL=http://u:hunter2@127.0.0.1:9/x", "INSTALL_TORCH=base")
    base = f"BASE_IMAGE=debian:13@sha256:{'0' * 64}"
    words = (word for setting in (base, *nsys) for word in ("--set", setting))
    done = invoke("lock", *words, directory=tmp_path)
    assert done.returncode == 3
    assert "127.0.0.1:9/x" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_a_dry_run_of_counters_shows_the_line_that_would_run(tmp_path: Path) -> None:
    words = ("counters", "--allow", "--dry-run", "--on")
    here = invoke(*words, "host", directory=tmp_path).stdout.strip()
    assert here.startswith("tee -- /etc/" if os.geteuid() == 0 else "sudo --non-interactive tee")
    there = invoke(*words, "ssh", "--host=u@h", directory=tmp_path).stdout
    assert there.startswith("# As root there, the same without sudo.\n  ssh ")
    assert "u@h 'sudo --non-interactive tee -- /etc/modprobe.d/gpu-profile.conf'" in there


REFUSALS = {
    "a malformed .env": (("config", "--set", "IMGE=x"), 2, "Did you mean IMAGE?"),
    "an unknown launcher": (("profile", "--on", "k8s"), 2, f"There are {', '.join(LAUNCHERS)}"),
    "an open quote": (("profile", "--dry-run", "--nsys-args", "'"), 2, "--nsys-args"),
    "a preset that is none": (("profile", "--dry-run", "--preset", "ful"), 2, "Did you mean full?"),
    "fewer than no nodes": (("profile", "--dry-run", "--nodes=-1"), 2, "--nodes -1 is too small"),
    "no nodes": (("profile", "--dry-run", "--nodes=0"), 2, "Use 1 or more"),
    "time before": (("profile", "--dry-run", "--delay=-2"), 2, "--delay -2 is not understood"),
    "two nodes of one": (("profile", "--dry-run", "--nodes=2"), 2, "docker are one machine's"),
    "a name that is too long": (("profile", "--on=ssh", f"--sync={'x' * 300}"), 3, "Shorten it"),
    "an open quote in a setting": (
        ("render", "--set", "SLURM_ARGS='"),
        2,
        'command line: SLURM_ARGS is "\'": No closing quotation. Close the quote',
    ),
    "another launcher's flag": (("profile", "--dry-run", "--host=u@h"), 2, "Use --on ssh"),
    "a mount of no container": (
        ("profile", "--dry-run", "--on=host", "--mount=/a:/b"),
        2,
        "--mount: this job of host runs in no container",
    ),
    "an image of no container": (
        ("profile", "--dry-run", "--on=ssh", "--host=u@h", "--image=x"),
        2,
        "--image: this job of ssh runs in no container",
    ),
    "a mount of Slurm's node": (
        ("profile", "--dry-run", "--on=slurm", "--gpus=0", "--mount=/a:/b"),
        2,
        "slurm with --image",
    ),
    "a place that no image can have": (
        (
            *("profile", "--dry-run", "--on=slurm", "--login=u@h", "--gpus=0"),
            *("--image=/x.sqsh", "--workdir=code"),
        ),
        2,
        "SLURM_WORKDIR code is not absolute",
    ),
    "a rank beyond the last": (
        ("profile", "--on=host", "--ddp", "--gpus=0", "--processes=2", "--ranks=0,2"),
        2,
        "--ranks names rank 2, and the job's last rank is 1",
    ),
    "ranks that are none": (("profile", "--dry-run", "--ranks", "x"), 2, "--ranks 'x'"),
    "a mount that is none": (("profile", "--dry-run", "--mount", "x"), 2, "--mount 'x'"),
    "a variable of shell words": (
        ("profile", "--dry-run", "--env", "$(x)=1"),
        2,
        "NAME of letters",
    ),
    "a variable that is not set": (("profile", "--dry-run", "--env", "NOPE_1"), 2, "--env NOPE_1"),
    "an image that is none": (
        ("profile", "--dry-run", "--image", "A B"),
        2,
        "--image 'A B' is not understood",
    ),
    "GPUs that are no number": (("profile", "--dry-run", "--gpus", "two"), 2, "--gpus 'two'"),
    "a baseline and no waiting": (("profile", "--baseline", "--detach"), 2, "--baseline waits"),
    "fetch of nothing": (("fetch",), 2, "fetch needs a job"),
    "a handle like an option": (("logs", "--job", "docker://-f"), 2, "is not a job handle"),
    "a handle that is none": (("fetch", "--job", "k8s://x"), 2, "is not a job handle"),
    "a verb that is none": (("profil",), 2, "Did you mean profile?"),
    "a flag that is none": (("profile", "--rank", "0"), 2, "has no --rank. Did you mean --ranks?"),
    "help for no verb": (("--help", "stat"), 2, "Did you mean stats?"),
    "a flag near none": (("profile", "--frobnicate"), 2, "has no --frobnicate. `invoke profile"),
    "a report after a verb": (
        ("diagnose", "/a.sqlite"),
        2,
        "`invoke diagnose --report /a.sqlite`",
    ),
    "a flag of no verb": (("--lst",), 2, "invoke has no --lst. Did you mean --list?"),
    "a flag without its value": (("profile", "--name"), 2, "--name wants a value"),
    "a number that is none": (("profile", "--nodes=two"), 2, "--nodes 'two' is not a number"),
    "a number beside a name": (
        ("profile", "--name=two", "--nodes=two"),
        2,
        "--nodes 'two' is not a number",
    ),
    "a job without its --": (("profile", "./a.out"), 2, "What profile is to run goes after --"),
    "a run that is not there": (("logs", "--job", "nope"), 2, "no run 'nope'"),
}


@pytest.mark.parametrize(
    ("words", "code", "said"), keep_first(12, REFUSALS.values()), ids=REFUSALS.keys()
)
def test_a_refusal_is_one_line_with_its_code(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = invoke(*words, directory=tmp_path, REPORT_DIR=str(tmp_path))
    assert refused.returncode == code, refused.stderr
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert said in line
    assert "Traceback" not in refused.stderr


def test_a_dry_run_prints_and_touches_nothing(tmp_path: Path, hostile_name: str) -> None:
    shown = invoke(
        *("profile", "--dry-run", "--ddp", "--", "python3", "a b.py", hostile_name),
        directory=tmp_path,
        REPORT_DIR=str(tmp_path),
    )
    assert shown.returncode == 0, shown.stderr
    assert "docker run --detach" in shown.stdout
    assert "-- python3 'a b.py' " in shown.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_a_baseline_prints_both_runs(tmp_path: Path) -> None:
    words = (
        "profile",
        "--baseline",
        "--dry-run",
        "--on",
        "host",
        "--env",
        "KEY=hush",
        "--",
        "true",
    )
    shown = invoke(*words, directory=tmp_path, REPORT_DIR=str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("job.py start") == 2
    assert shown.stdout.count('"--plain"') == 1
    assert "hush" not in shown.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_the_container_prints_its_start(tmp_path: Path) -> None:
    shown = invoke("run", "--dry-run", directory=tmp_path, REPORT_DIR=str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "docker run --detach --pull=never --name=gpu-profile" in shown.stdout


def test_a_trace_file_is_written_and_checked(tmp_path: Path) -> None:
    written = invoke("trace-file", "--domain", "io", "--", "json:dumps", directory=tmp_path)
    assert '"functions": [' in written.stdout, written.stderr
    refused = invoke("trace-file", "--", "json:dmps", directory=tmp_path)
    assert refused.returncode == 2
    assert "dumps" in refused.stderr


@pytest.fixture
def run_that_is_over(tmp_path: Path) -> RunRecord:
    """A failed run whose engine has nothing left of it."""
    directory = record.create_run(tmp_path, "train-1")
    run = RunRecord(
        id="train-1",
        launcher="slurm",
        command=("python3", "train.py"),
        handle="slurm://7",
        phase="failed",
        exit_code=3,
        error="the job failed with exit code 3.",
        baseline={"wall_s": 2.0, "profiled_wall_s": 3.0, "ratio": 1.5},
        cleaned=True,
    )
    record.save_run(run, directory)
    (directory / record.OUTPUT_FILE).write_text("its words\n")
    return run


@pytest.mark.parametrize("job", ["train-1", "slurm://7"])
def test_a_run_that_is_over_is_read_from_its_record(
    tmp_path: Path, run_that_is_over: RunRecord, job: str
) -> None:
    def said(*words: str) -> Result:
        return invoke(*words, "--job", job, directory=tmp_path, REPORT_DIR=str(tmp_path))

    line = f"failed, exit code 3; {tmp_path}/train-1 has no reports; the profile cost 1.500x"
    for verb in ("status", "stop"):
        assert said(verb).stdout.startswith(line)
        assert said(verb).returncode == 0
    assert said("logs").stdout == "its words\n"
    fetched = said("fetch")
    assert (fetched.returncode, fetched.stderr) == (5, f"error: {run_that_is_over.error}\n")


TRACED = (
    (("json:dumps", "os.path:join"), ["json", "os.path"], ""),
    (("json:dumps", "--domain", "io", "os.path:join"), ["json", "os.path"], "io"),
    (("--domain=io", "json:dumps"), ["json"], "io"),
    (("json:dumps", "--", "os.path:join"), ["json", "os.path"], ""),
)


@pytest.mark.parametrize(("words", "modules", "domain"), TRACED)
def test_functions_to_trace_are_plain_words(
    tmp_path: Path, words: tuple[str, ...], modules: list[str], domain: str
) -> None:
    written = invoke("trace-file", *words, directory=tmp_path)
    assert written.returncode == 0, written.stderr
    entries = json.loads(written.stdout)
    assert [entry["module"] for entry in entries] == modules
    assert {entry.get("domain", "") for entry in entries} == {domain}


def test_the_verb_after_the_functions_is_a_verb(tmp_path: Path) -> None:
    both = invoke("trace-file", "json:dumps", "config", directory=tmp_path)
    assert both.returncode == 0, both.stderr
    assert '"module": "json"' in both.stdout
    assert "REPORT_DIR" in both.stdout


def test_no_engine_is_a_missing_tool(tmp_path: Path) -> None:
    refused = invoke("status", directory=tmp_path, DOCKER_HOST="unix:///nonexistent")
    assert refused.returncode == 3
    assert "`invoke doctor" in refused.stderr


def test_what_a_command_line_leaves_open_is_said(tmp_path: Path) -> None:
    words = argv("profile", "--on=host", "--set=NSYS=/no/nsys", directory=tmp_path)
    shell = ("sh", "-c", 'echo data | "$@"', "sh")
    done = process.run(Command(argv=(*shell, *words), env={"REPORT_DIR": str(tmp_path)}))
    assert done.returncode == 3, done.stderr
    assert "no command after --: this profiles the sample training, /train.py\n" in done.stderr
    assert "note: standard input does not reach the job: have it read a file\n" in done.stderr
