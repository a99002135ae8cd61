"""Marks in the image's PyTorch, started by torchrun, mp.spawn and accelerate launch."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT
from tests import invoked
from tests.live.annotate.marked import DATA, list_ranges

pytestmark = [pytest.mark.docker, pytest.mark.image]
ACCELERATE = ("accelerate==1.2.1", "huggingface_hub==0.27.1", "safetensors==0.5.2")
OF_ACCELERATE = ("tqdm==4.67.1", "filelock==3.16.1", "fsspec==2024.12.0")
# Debian's torch is built without libuv, which torchrun's own store asks for.
NO_SHARING = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
MEETING = (
    *("--rdzv-backend=c10d", "--rdzv-conf=store_type=file", "--rdzv-id=1"),
    "--rdzv-endpoint=/tmp/meeting",
)
MARKS = ("step", "forward", "forward 0", "forward 1", "backward 0", "optimizer SGD")


def test_torchrun_in_a_container(image: str, tmp_path: Path) -> None:
    """Two ranks under one nsys, of two steps each."""
    name, _, tag = image.rpartition(":")
    directory = invoked.reporting_here(tmp_path)
    code = f"{DATA / 'starters'}:/code:ro"
    command = ("torchrun", "--nproc_per_node=2", *MEETING, "/code/train.py")
    options = ("--annotate=modules", "--trace=nvtx")
    words = ("profile", *options, f"--mount={code}", f"--env={NO_SHARING}", "--")
    done = invoked.invoke(*words, *command, directory=directory, IMAGE=name, VERSION=tag)
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.glob("*/run.json")
    (ranges,) = list_ranges(run.parent).values()
    assert count_marks(ranges) == dict.fromkeys(MARKS, 4)
    assert "forward 0|Linear|torch/nn/modules/linear.py:" in str(list(ranges))


def count_marks(calls: Counter[str]) -> dict[str, int]:
    """The calls of MARKS, without the classes and lines of modules."""
    by_name: Counter[str] = Counter()
    for text, count in calls.items():
        by_name[text.partition("|")[0]] += count
    return {name: by_name[name] for name in MARKS}


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that listens to NVTX, as nsys' does, and writes the ranges to a file."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, which makes the tool that listens to NVTX")
    library = tmp_path_factory.mktemp("tool") / "tool.so"
    source = DATA / "doubles" / "nvtx_tool.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def run_in_image(image: str, tool: Path, out: Path, *command: str) -> Counter[str]:
    """The ranges that a command's processes make in the image, without network."""
    out.mkdir(exist_ok=True)
    places = {AGENT / "annotate": "/m", DATA / "starters": "/code", tool: "/tool.so", out: "/out"}
    environ = {
        "PYTHONPATH": "/m:/out/site",
        "GPU_PROFILE_ANNOTATE": "modules",
        "NVTX_INJECTION64_PATH": "/tool.so",
        "TOOL_LOG": "/out/log",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = ["docker", "run", "--rm", "--network=none", "--workdir=/code"]
    words += [f"--volume={here}:{there}" for here, there in places.items()]
    words += [f"--env={name}={value}" for name, value in environ.items()]
    done = subprocess.run([*words, image, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (out / "log").read_text().splitlines()
    return Counter(line.removeprefix("push ") for line in lines if line.startswith("push "))


def test_mp_spawn(image: str, tool: Path, tmp_path: Path) -> None:
    ranges = run_in_image(image, tool, tmp_path / "out", "python3", "train.py", "spawn")
    assert count_marks(ranges) == dict.fromkeys(MARKS, 4)


@pytest.mark.slow
def test_accelerate_launch(image: str, tool: Path, tmp_path: Path) -> None:
    """It starts a child. The packages are of the index that pip knows: not tried without one."""
    out = tmp_path / "out"
    out.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", f"--target={out}/site"]
    platform = ["--only-binary=:all:", "--python-version=313", "--implementation=cp"]
    installed = subprocess.run([*pip, *platform, *ACCELERATE, *OF_ACCELERATE], capture_output=True)
    if installed.returncode:
        pytest.skip("no index of packages has accelerate for the image's Python")
    launch = ("-m", "accelerate.commands.launch", "--cpu", "train.py")
    ranges = run_in_image(image, tool, out, "python3", *launch)
    assert count_marks(ranges) == dict.fromkeys(MARKS, 2)
