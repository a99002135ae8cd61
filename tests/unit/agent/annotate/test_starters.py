"""Programs are marked however a Python starts them. torchrun and others of torch's: tests/live."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.further import keep_first

TRAIN = """
import torch
def train(*_):
    torch.nn.Module()()
    torch.optim.Optimizer().step()
if __name__ == "__main__":
    train()
"""
PROGRAMS = {
    "train.py": TRAIN,
    "child.py": "import subprocess as s, sys\ns.run([sys.executable, 'train.py'], check=True)\n",
    "spawned.py": (
        "import multiprocessing as m, train\nif __name__ == '__main__':\n"
        "    child = m.get_context('spawn').Process(target=train.train)\n"
        "    child.start(); child.join(); raise SystemExit(child.exitcode)\n"
    ),
    "replaced.py": "import os, sys\nos.execv(sys.executable, [sys.executable, 'train.py'])\n",
}
ARGUMENTS = {
    "python x.py": ["train.py"],
    "python -m x": ["-m", "train"],
    "python -c": ["-c", "import train; train.train()"],
    "subprocess": ["child.py"],
    "multiprocessing spawn": ["spawned.py"],
    "exec": ["replaced.py"],
}


@pytest.mark.parametrize("starter", keep_first(2, ARGUMENTS))
def test_a_program_is_marked(site: Path, tool: Path, tmp_path: Path, starter: str) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    environ = {
        "PYTHONPATH": f"{AGENT / 'annotate'}{os.pathsep}{site}",
        "GPU_PROFILE_ANNOTATE": "modules",
        "NVTX_INJECTION64_PATH": str(tool),
        "TOOL_LOG": str(tmp_path / "log"),
        "PATH": "/usr/bin:/bin",
    }
    words = [sys.executable, *ARGUMENTS[starter]]
    done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "log").read_text().splitlines()
    pushed = [line.partition("|")[0] for line in lines if line.startswith("push")]
    marks = ["step", "forward", "forward Module", "optimizer Optimizer"]
    assert pushed == [f"push {mark}" for mark in marks]
