"""A tool that listens to NVTX, and what stands for torch in programs with our marks."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.shared_folder import find_shared_folder

DOUBLES = Path(__file__).parents[3] / "data" / "annotated" / "doubles"


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that listens to NVTX, as nsys' does. All processes of tests share it."""
    library = find_shared_folder(tmp_path_factory) / "nvtx_tool.so"
    if library.exists():
        return library
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler, which makes the tool that listens to NVTX")
    draft = library.with_name(f"{library.name}.{os.getpid()}")
    words = [compiler, "-shared", "-fPIC", "-o", str(draft), str(DOUBLES / "nvtx_tool.c")]
    subprocess.run(words, check=True)
    return draft.replace(library)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder on PYTHONPATH, with a torch."""
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    shutil.copy(DOUBLES / "torch_double.py", site / "torch" / "__init__.py")
    return site
