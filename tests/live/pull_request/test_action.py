"""The scripts of the action as a runner starts them: a job that measures, one that comments."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_profile.analysis.pull_request.formats import MARK, MOST_LINES
from gpu_profile.settings.places import ROOT
from tests.live.pull_request.github_stand_in import (
    BOT,
    REPOSITORY,
    TOKEN,
    GitHub,
    pack,
    serve_github,
)

HEAD, OTHER = "a" * 40, "b" * 40
HELP = ROOT / "tests/data/nsys-help/2023.4.txt"
NSYS = f"""#!{sys.executable}
import shutil, subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("NVIDIA Nsight Systems version 2025.1.1.1"))
if "--help" in sys.argv:
    sys.exit(print(open({str(HELP)!r}).read()))
(output,) = (word[9:] for word in sys.argv if word.startswith("--output="))
if sys.argv[1] == "export":
    sys.exit(shutil.copy(sys.argv[-1], output) and 0)
first = next(at for at, word in enumerate(sys.argv) if at > 1 and word[0] != "-")
code = subprocess.call(sys.argv[first:])
shutil.copy("made.sqlite", output.removesuffix(".nsys-rep") + ".nsys-rep")
sys.exit(code)
"""
TRAIN = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.unit.analysis.scenarios import Training
from extra import after

Path("made.sqlite").unlink(missing_ok=True)
with Path("made.runs").open("a+b") as runs:
    runs.write(b".")
    number = runs.tell()  # from 1; two runs of one side are never the same recording
kernel_us = 200 + 0.2 * (-1) ** number * number
made = Training(ranks=1, steps=8, kernel_us=kernel_us, after=after).record()
made.add("OSRT_API", 0, 100, 1, made.name("poll"))
made.save(Path("made.sqlite"))
"""
QUICK, SLOW = (
    "def after(rank):\n    pass\n",
    'def after(rank):\n    rank.kernel(400, "cast<T|x> @team")\n',
)


def start(script: str, directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the action with the variables of a runner, and no others of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    words = ("bash", str(ROOT / "actions" / script))
    return subprocess.run(
        words, cwd=directory, env={**kept, **env}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The command of this checkout, with the packages that are here."""
    script = tmp_path / "program"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/gpu_profile" "$@"\n')
    script.chmod(0o755)
    return str(script)


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(("git", *author, "-C", str(folder), *words), check=True, capture_output=True)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A repository whose change launches one kernel more; its nsys records what train.py makes."""
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "train.py").write_text(TRAIN)
    (tmp_path / "runs").mkdir()
    (folder / "out").mkdir()
    (folder / "out" / "ci.json").write_text("of an earlier run")
    (folder / "extra.py").write_text(QUICK)
    (folder / ".gitignore").write_text("made.*\n__pycache__\nout\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=base")
    git(folder, "switch", "--quiet", "--create=change")
    (folder / "extra.py").write_text(SLOW)
    git(folder, "commit", "--quiet", "--all", "--message=change")
    (tmp_path / "nsys").write_text(NSYS)
    (tmp_path / "nsys").chmod(0o755)
    return folder


@pytest.fixture
def measured(code: Path, program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A measurement of the change, as action.yml makes it."""
    return start(
        "run.sh",
        code,
        GPU_PROFILE=program,
        GP_COMMAND=f"{sys.executable} train.py",
        GP_BASE="main",
        GP_PAIRS="3",
        GP_FLAGS="--on=host\n\n",
        GP_OUTPUT="out",
        GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"),
        REPORT_DIR=str(tmp_path / "runs"),
        NSYS=str(tmp_path / "nsys"),
    )


def test_a_change_is_measured_and_its_comment_made_anew(
    code: Path, program: str, tmp_path: Path, measured: subprocess.CompletedProcess[str]
) -> None:
    assert measured.returncode == 8, measured.stdout + measured.stderr
    assert {path.name for path in (code / "out").iterdir()} == {
        *("ci.json", "ci.txt", "ci.md", "ci.xml")
    }
    token = measured.stdout.splitlines()[0].partition("::stop-commands::")[2]
    assert measured.stdout.splitlines()[-1] == f"::{token}::"
    assert "kernel cast<T|x> @team: +0.400 ms a step" in measured.stdout
    assert (tmp_path / "summary.md").read_text() == (code / "out/ci.md").read_text()
    assert not (code / ".git/gpu-profile").exists()
    document = (code / "out/ci.json").read_bytes()
    state = GitHub(
        artifact=pack({"ci.json": document, "ci.md": b"not this one"}),
        heads={n: HEAD if n == 150 else OTHER for n in range(1, 200)},
    )
    with serve_github(state):
        for _ in range(2):  # the second run changes the comment of the first
            done = comment(state, program, tmp_path)
            assert (done.returncode, done.stderr) == (0, "")
    (written,) = state.comments[150]
    assert state.comments.keys() == {150}
    assert state.calls[-1].startswith("PATCH ")
    assert state.tokens_elsewhere == ["", ""]
    lines = written["body"].splitlines()
    assert lines[0] == MARK
    assert lines[1].startswith("**gpu-profile: slower**, compared with `main (")
    assert len(lines) <= MOST_LINES
    row = "| kernel `cast<T\\|x> @team` | 0.000 | 0.400 | +0.400 ms | `appeared, 1 a step` |"
    assert row in lines
    repeat = "gpu-profile ci --on=host --base=main --pairs=3 -- bash -c 'python3 train.py'"
    assert lines[-1] == f"Repeat: `{repeat}` Measured at commit {HEAD}."


def test_a_program_without_steps_ends_after_the_first_pair(
    code: Path, program: str, tmp_path: Path
) -> None:
    (code / "train.py").write_text(TRAIN.replace("steps=8", "steps=1, step_range='once'"))
    git(code, "commit", "--quiet", "--all", "--message=no steps")
    measured = start(
        "run.sh",
        code,
        GPU_PROFILE=program,
        GP_COMMAND=f"{sys.executable} train.py",
        GP_BASE="change",
        GP_FLAGS="--on=host",
        REPORT_DIR=str(tmp_path / "runs"),
        NSYS=str(tmp_path / "nsys"),
    )
    assert measured.returncode == 6
    assert "error: the base run has no step." in measured.stderr
    assert len(list((tmp_path / "runs").glob("ci-*"))) == 2


def comment(
    state: GitHub, program: str, folder: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    variables: Mapping[str, str] = {
        "GPU_PROFILE": program,
        "GITHUB_API_URL": state.url,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "GP_RUN_ID": "77",
        "GP_HEAD_SHA": HEAD,
        "GP_COMMAND": "python3 train.py",
        "GP_BASE": "main",
        "GP_PAIRS": "3",
        "GP_FLAGS": "--on=host\n",
        "RUNNER_TEMP": str(folder),
    }
    return start("comment.sh", folder, **{**variables, **env})


RESULT = {
    "base": "main",
    "figures": [
        {"metric": "gpu", "base_ms": [1, 1, 1], "new_ms": [1, 1, 1], "fail_over": 0.01, "fewest": 9}
    ],
}
GOOD = pack({"ci.json": json.dumps(RESULT).encode()})
DATA = 30 + len("ci.json")
"""Where the member's compressed bytes begin, after the header and the name."""


@pytest.mark.parametrize(
    ("artifact", "env", "said"),
    [
        (b"", {}, "has no artifact 'gpu-profile-ci'"),
        (b"no zip", {}, "holds no readable ci.json"),
        (GOOD[:DATA] + b"\xff" + GOOD[DATA + 1 :], {}, "holds no readable ci.json"),
        (pack({"../ci.json": b"{}"}), {}, "holds no readable ci.json"),
        (pack({"ci.json": b" " * (1 << 22)}), {}, "more than 1048576 bytes"),
        (pack({"ci.json": b"[]"}), {}, "the file is not a result of ci"),
        (pack({"ci.json": b"{}"}, zipfile.ZIP_LZMA), {}, "holds no readable ci.json"),
        (GOOD, {"GITHUB_TOKEN": "wrong"}, "HTTP Error 401"),
        (GOOD, {"GP_RUN_ID": "77/../../x"}, "is not a run"),
        (GOOD, {"GP_HEAD_SHA": "main"}, "is not a commit"),
        (GOOD, {"GITHUB_API_URL": "http://127.0.0.1:1"}, "Connection refused"),
    ],
)
def test_what_an_artifact_may_hold_is_refused(
    artifact: bytes, env: Mapping[str, str], said: str, program: str, tmp_path: Path
) -> None:
    state = GitHub(artifact=artifact, heads={3: HEAD})
    with serve_github(state):
        done = comment(state, program, tmp_path, **env)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode != 6 or done.stderr.startswith("::stop-commands::")
    assert state.comments == {}
    assert not list(tmp_path.glob("gpu-profile.*"))


def test_a_comment_of_somebody_else_is_left_alone(program: str, tmp_path: Path) -> None:
    state = GitHub(artifact=GOOD, heads={3: HEAD})
    state.comment(3, "somebody", f"{MARK} mine")
    with serve_github(state):
        assert comment(state, program, tmp_path, GP_COMMAND="").returncode == 0
        gone = comment(state, program, tmp_path, GP_HEAD_SHA=OTHER)
    assert [comment["user"]["login"] for comment in state.comments[3]] == ["somebody", BOT]
    assert state.comments[3][0]["body"] == f"{MARK} mine"
    assert "Repeat" not in state.comments[3][1]["body"]
    assert (gone.returncode, "nothing to comment on" in gone.stdout) == (0, True)
