"""docs/api.ipynb runs, and each of its cells shows the kind of output that the page holds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "api.ipynb"
EXECUTE = "from nbclient.cli import main; main()"


def read_kinds(path: Path) -> list[list[list[str]]]:
    """The MIME types of each output of each code cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    return [[sorted(output.get("data", {})) for output in of_cell] for of_cell in outputs]


def test_the_page_of_examples_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Executed by nbclient in a process of its own, beside the recordings that it reads."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "docs").mkdir()
    copy = Path(shutil.copy(PAGE, tmp_path / "docs"))
    words = ["--inplace", "--kernel_name=python3", str(copy)]
    child = subprocess.run(
        [sys.executable, "-c", EXECUTE, *words], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert read_kinds(copy) == read_kinds(PAGE)
