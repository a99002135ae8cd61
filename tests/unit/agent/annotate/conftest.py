"""A tool that listens to NVTX, and what stands for torch in programs with our marks."""

import shutil
import subprocess
from pathlib import Path

import pytest

DOUBLES = Path(__file__).parents[3] / "data" / "annotated" / "doubles"


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that listens to NVTX, as nsys' does."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler, which makes the tool that listens to NVTX")
    library = tmp_path_factory.mktemp("tool") / "tool.so"
    words = [compiler, "-shared", "-fPIC", "-o", str(library), str(DOUBLES / "nvtx_tool.c")]
    subprocess.run(words, check=True)
    return library


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder on PYTHONPATH, with a torch."""
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    shutil.copy(DOUBLES / "torch_double.py", site / "torch" / "__init__.py")
    return site
