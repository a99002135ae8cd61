"""Shares of the fuzzers of command lines and of small files."""

import os
import stat
import sys
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Result, make_command
from tests.fuzz import command_line, small_files
from tests.fuzz import sandbox as sandbox_module
from tests.fuzz.sandbox import ROOT
from tests.seeds import choose_size, list_seeds

COMMANDS, FILES = choose_size(6, nightly=30), choose_size(50, nightly=1000)
DEVICES = [Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom")]


@pytest.fixture
def sandbox() -> None:
    """Skip where the kernel allows no namespaces to this user."""
    result = _run_inside("pass")
    if "no sandbox" in result.stderr:
        pytest.skip(result.stderr.strip())


def _run_inside(code: str, root: Path = ROOT) -> Result:
    argv = ("env", f"--chdir={root}", sys.executable, "-m", "tests.fuzz.sandbox", sys.executable)
    return process.run(make_command(*argv, "-c", code))


def describe_devices() -> list[tuple[int, int, int]]:
    facts = [device.lstat() for device in DEVICES]
    return [(status.st_ino, status.st_rdev, stat.S_IFMT(status.st_mode)) for status in facts]


HARM = """
import os, pathlib
for path in ({targets}):
    for change in (
        lambda: pathlib.Path(path).write_text("harm"),
        lambda: os.replace(pathlib.Path("draft").resolve(), path),
        lambda: os.unlink(path),
    ):
        pathlib.Path("draft").write_text("harm")
        try:
            change()
        except OSError:
            pass
"""


@pytest.mark.usefixtures("sandbox")
def test_nothing_outside_of_the_sandbox_can_change(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("as it was")
    before = describe_devices()
    targets = [*map(str, DEVICES), str(mine), str(ROOT / "LICENSE"), "/etc/hostname"]
    licence = (ROOT / "LICENSE").read_bytes()
    harm = HARM.format(targets=", ".join(map(repr, targets)))
    assert _run_inside(harm).returncode == 0
    assert (describe_devices(), mine.read_text()) == (before, "as it was")
    assert (ROOT / "LICENSE").read_bytes() == licence


@pytest.mark.usefixtures("sandbox")
def test_a_clone_in_a_folder_that_is_hidden_is_seen_and_kept(tmp_path: Path) -> None:
    """tmp_path is below /tmp as a rule."""
    copy = tmp_path / "clone" / "tests" / "fuzz"
    copy.mkdir(parents=True)
    (copy / "sandbox.py").write_bytes(Path(sandbox_module.__file__).read_bytes())
    code = "import os; print(os.listdir(ROOT)); open(ROOT + '/x', 'w')"
    result = _run_inside(f"ROOT = {str(tmp_path / 'clone')!r}; {code}", tmp_path / "clone")
    assert result.stdout.startswith("['tests'"), result.stderr
    assert "Read-only file system" in result.stderr
    assert not (tmp_path / "clone" / "x").exists()


@pytest.mark.usefixtures("sandbox")
def test_the_sandbox_has_no_network_and_sees_no_process() -> None:
    code = "import os; print(os.getpid(), open('/proc/net/dev').read().count(':'))"
    assert _run_inside(code).stdout == "1 1\n"
    assert _run_inside(f"import os; os.kill({os.getpid()}, 0)").returncode == 1


@pytest.mark.further
@pytest.mark.drawn
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("seed", list_seeds((1,), nightly=8))
def test_command_lines_end_with_a_code_of_ours(seed: int) -> None:
    before = describe_devices()
    tally, defects = command_line.run(seed, COMMANDS)
    repeat = f"python -m tests.fuzz.command_line --seed {seed} --count {COMMANDS}"
    assert defects == [], repeat
    assert sum(tally.values()) == COMMANDS
    assert describe_devices() == before


@pytest.mark.parametrize(
    ("result", "defect"),
    [
        ({"code": 1, "out": "", "err": "Traceback (most recent call last):"}, "traceback"),
        ({"code": 1, "out": "", "err": "x"}, "exit code 1"),
        ({"code": "timeout", "out": "", "err": ""}, "exit code timeout"),
        ({"code": 2, "out": "", "err": " "}, "exit code 2 without a line"),
        ({"code": 2, "out": "", "err": "\x1b[31m"}, "a control character on stderr"),
        ({"code": 0, "out": "", "err": ""}, ""),
    ],
)
def test_defects_of_a_command_are_named(result: dict[str, object], defect: str) -> None:
    assert command_line.describe_defect(result) == defect


@pytest.mark.drawn
@pytest.mark.parametrize("seed", list_seeds((1,), nightly=4))
def test_small_files_are_read_or_refused(seed: int) -> None:
    tally, defects = small_files.run(seed, FILES)
    repeat = f"python -m tests.fuzz.small_files --seed {seed} --count {FILES}"
    assert defects == [], repeat
    kinds = {key.split()[0] for key in tally if key.endswith(" read")}
    assert kinds == {name for name, *_ in small_files.CASES}
