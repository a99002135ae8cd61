"""The start-up module in fresh Pythons: an own sitecustomize, programs without torch."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.further import further

START_UP = AGENT / "annotate"
TORCH = "import sys\nsys.imported_torch = True\nversion = '0'\n"
INSTALLED = {
    sys.executable,
    *map(str, Path("~/.pyenv/versions").expanduser().glob("[23].*/bin/python")),
}
OLD_PYTHONS = sorted(path for path in INSTALLED if re.search(r"/(2|3\.[0-7])\.", path))
"""Those of pyenv before 3.8."""
PYTHONS = sorted(INSTALLED - set(OLD_PYTHONS))
"""This Python and those of pyenv, from 3.8 on."""
ENDS = {sys.executable, *(path for path in PYTHONS if "/3.8." in path)}
"""This Python and the oldest: `check` leaves those between to CI."""


def run(
    tmp_path: Path, code: str, *, level: str = "modules", python: object = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run code with the start-up module, a fake torch, and a sitecustomize of the environment."""
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True, exist_ok=True)
    (site / "torch" / "__init__.py").write_text(TORCH)
    (site / "sitecustomize.py").write_text("import sys\nsys.own_ran = __file__\n")
    env = {
        "PYTHONPATH": f"{START_UP}:{site}",
        "GPU_PROFILE_ANNOTATE": level,
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run([str(python), "-c", code], env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    "python",
    [path if path in ENDS else further(path) for path in PYTHONS],
    ids=lambda path: str(path).replace("/", "."),
)
def test_each_python_starts_and_runs_its_own_sitecustomize(tmp_path: Path, python: object) -> None:
    code = "import sys, torch; print(sys.imported_torch, sys.own_ran, sys.version_info[:2])"
    done = run(tmp_path, code, python=python)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"True {tmp_path / 'site' / 'sitecustomize.py'}")
    assert done.stderr == ""  # no tool listens: nothing is installed


@pytest.mark.parametrize("python", OLD_PYTHONS, ids=lambda path: str(path).replace("/", "."))
def test_an_old_python_has_no_marks_and_its_own_sitecustomize(
    tmp_path: Path, python: object
) -> None:
    code = "import sys, torch; print(sys.own_ran); print('gpu_profile_marks' in sys.modules)"
    done = run(tmp_path, code, python=python)
    assert (done.returncode, done.stderr) == (0, "")
    own, marks = done.stdout.splitlines()
    assert own.startswith(str(tmp_path / "site" / "sitecustomize.py"))
    assert marks == "False"


@pytest.mark.parametrize("python", OLD_PYTHONS, ids=lambda path: str(path).replace("/", "."))
def test_an_old_python_without_a_sitecustomize_says_nothing(tmp_path: Path, python: object) -> None:
    env = {"PYTHONPATH": str(START_UP), "GPU_PROFILE_ANNOTATE": "steps", "PATH": "/usr/bin:/bin"}
    command = [str(python), "-B", "-c", "print(1)"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_program_without_torch_imports_nothing_of_it(tmp_path: Path) -> None:
    code = "import sys; print(*sorted(m for m in sys.modules if 'torch' in m or 'marks' in m))"
    names = ("", ".failure", ".import_hook", ".variables", ".waiting")
    marks = [f"gpu_profile_marks{name}" for name in names]
    assert run(tmp_path, code).stdout.split() == marks


def test_a_question_for_torch_imports_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; u.find_spec('torch'); u.find_spec('torch');"
        "print('torch' in sys.modules, len([f for f in sys.meta_path if 'marks' in repr(f)]));"
        "import torch; print(len([f for f in sys.meta_path if 'marks' in repr(f)]))"
    )
    assert run(tmp_path, code).stdout == "False 2\n1\n"


def test_no_level_waits_for_nothing(tmp_path: Path) -> None:
    code = "import sys; print([f for f in sys.meta_path if 'marks' in repr(f)])"
    assert run(tmp_path, code, level="none").stdout == "[]\n"


def test_no_torch_there(tmp_path: Path) -> None:
    remove = "import shutil, sys; shutil.rmtree(sys.own_ran.rpartition('/')[0])"
    code = "try:\n import torch\nexcept ImportError as e: print(e)"
    assert run(tmp_path, f"{remove}\n{code}").stdout == "No module named 'torch'\n"


def test_an_error_of_ours_is_one_line(tmp_path: Path) -> None:
    """A tool that cannot be loaded: the job goes on."""
    code = (
        "import os; os.environ['NVTX_INJECTION64_PATH'] = '/nowhere.so'\nimport torch; print('on')"
    )
    done = run(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("gpu-profile: marks are off, the job goes on: OSError")
