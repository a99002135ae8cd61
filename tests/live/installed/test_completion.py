"""Tab in real shells: each gets a line, Tab and Enter, and the command shows the words it got."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command
from gpu_profile.settings.places import ROOT

pytestmark = pytest.mark.shells
RUN = "train-20260102-030405"
PROGRAM = f"""\
#!{sys.executable}
import sys
if sys.argv[1].startswith(("--complete", "--print")):
    from gpu_profile.cli.tasks import main
    main()
else:
    print("<words>", *sys.argv[1:], "</words>", sep="|")
"""
LINES = {
    "build push prof": "build|push|profile",
    "profile --moun": "profile|--mount",
    "profile --on=ss": "profile|--on=ssh",
    "profile --set INSTALL_MPI=t": "profile|--set|INSTALL_MPI=true",
    "diagnose --run tra": f"diagnose|--run|{RUN}",
    "profile --mount . -- python3 te": "profile|--mount|.|--|python3|test.py",
}
"""What is typed before Tab, and the words that the command then gets."""
START = {
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files of the user, and `gpu-profile` first on PATH."""
    program = tmp_path / "bin" / "gpu-profile"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    work = tmp_path / "work"
    for name in (RUN, "train-$(touch pwned)"):
        (work / "runs" / name).mkdir(parents=True)
        (work / "runs" / name / "run.json").write_text("{}")
    for name in ("train.py", "test.py", "requirements.txt"):
        (work / name).touch()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("REPORT_DIR", str(work / "runs"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def find_shell(require: Callable[[str, object], None]) -> Callable[[str], str]:
    def find(name: str) -> str:
        path = shutil.which(name)
        require("shells", not path and f"{name} is not installed")
        return str(path)

    return find


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, *argv: str) -> None:
        self.master, slave = pty.openpty()
        self.child = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, end: str, within_s: float = 60.0) -> str:
        text = ""
        deadline = time.monotonic() + within_s
        while end not in text:
            assert time.monotonic() < deadline, text
            if select.select([self.master], [], [], 1.0)[0]:
                text += os.read(self.master, 65536).decode(errors="replace")
        return text

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.master)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_verbs_flags_values_and_files(
    shell: str, work: Path, find_shell: Callable[[str], str]
) -> None:
    terminal = Terminal(find_shell(shell), *START[shell])
    try:
        terminal.type(f'eval "$(gpu-profile --print-completion-script={shell})"; echo READ""Y\n')
        terminal.read_until("READY")
        for typed, words in LINES.items():
            terminal.type(f"gpu-profile {typed}\t\n")
            shown = terminal.read_until("</words>").partition("<words>|")[2]
            assert shown.startswith(f"{words}|</words>"), typed
    finally:
        terminal.close()
    assert not list(work.rglob("pwned"))


def test_fish_completes_verbs_flags_values_and_files(
    work: Path, find_shell: Callable[[str], str]
) -> None:
    questions = "; ".join(
        f"echo '>>'; complete --do-complete 'gpu-profile {typed}'" for typed in LINES
    )
    script = f"gpu-profile --print-completion-script=fish | source; {questions}"
    argv = (find_shell("fish"), "--no-config", "--command", script)
    done = process.run(Command(argv=argv))
    assert done.returncode == 0, done.last_line
    answers = [part.split("\n")[1].partition("\t")[0] for part in done.stdout.split(">>")[1:]]
    assert answers == [words.rpartition("|")[2] for words in LINES.values()]
    assert not list(work.rglob("pwned"))
