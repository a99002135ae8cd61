"""A double of torch for jobs: its profiler writes what it was told to record."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.invoked import reporting_here

DOUBLE = Path(__file__).parents[1] / "data" / "annotated" / "doubles" / "torch_double.py"
PROFILER = '''

class _Traced:
    """Stands for torch.profiler.profile: notes annotations, and launches a kernel at each end."""

    running = None

    def __init__(self, activities, experimental_config=None):
        self.profiler, self.events, self.open = _OfAutograd(), [], []
        self.facts = {"schemaVersion": 1, "deviceProperties": []}

    def start(self):
        self.profiler._prepare_trace()
        _Traced.running = self

    def stop(self):
        _Traced.running = None

    def add_metadata_json(self, name, text):
        self.facts[name] = __import__("json").loads(text)

    def enter(self, name, _):
        self.open.append((name, 1e6 * __import__("time").time()))

    def leave(self, _):
        name, begun = self.open.pop()
        took = 1e6 * __import__("time").time() - begun
        base = {"ph": "X", "pid": 40, "ts": begun, "dur": took, "tid": 40}
        ids = {"correlation": len(self.events), "device": 0, "stream": 7}
        self.events += [
            {**base, "cat": "user_annotation", "name": name},
            {**base, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": ids},
            {**base, "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "args": ids},
        ]

    def export_chrome_trace(self, path):
        with open(path, "w") as file:
            __import__("json").dump({**self.facts, "traceEvents": self.events}, file)


class _OfAutograd:
    def _prepare_trace(self):
        pass


def _enter(name, arguments):
    running = _Traced.running
    return running and (running.enter(name, arguments), running)


def _leave(entered):
    entered and entered[1].leave(None)


profiler = _module(
    "torch.profiler", profile=_Traced, ProfilerActivity=types.SimpleNamespace(CPU=0, CUDA=1)
)
autograd.profiler = types.SimpleNamespace(profile=_OfAutograd)
autograd.kineto_available = lambda: KINETO
cuda.is_available = lambda: False
cuda._lazy_call = lambda call: None
_exit = types.SimpleNamespace(_RecordFunction=_leave)
ops = types.SimpleNamespace(
    profiler=types.SimpleNamespace(_record_function_enter_new=_enter, _record_function_exit=_exit)
)
'''
TRAIN = """
import os, sys, time, torch
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
for step in range(int(sys.argv[1])):
    model()
    time.sleep(0.001)
    optimizer.step()
    if step == 1:
        print("begun", flush=True)
    if os.path.exists("".join(sys.argv[2:])):
        raise SystemExit(7)
print("trained")
"""
"""Its words: the number of steps, and a file whose existence ends it with code 7."""


REAL_TRAIN = """
import os, sys, time, torch
torch.set_num_threads(1)
model, batch = torch.nn.Linear(64, 64), torch.ones(8, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while not os.path.exists(sys.argv[1]):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    step += 1
    if step == 3:
        print("begun", flush=True)
raise SystemExit(7)
"""
"""A training for a real torch without a GPU, until a file exists."""


def record_twice(invoke: Callable[..., Any], job: str, ranks: int = 1) -> None:
    """Record two windows of an armed job: both are fetched and read, and the job goes on."""
    while invoke("logs", "--job", job).stdout.count("begun") < ranks:
        time.sleep(1)
    for number, length in ((1, "--steps=5"), (2, "--seconds=0.2")):
        done = invoke("record", f"--job={job}", length)
        assert done.returncode == 0, done.stderr
        pattern = rf"/rank(\d+)\.\S+\.{number}\.pt\.trace\.json\.gz: .* nvtx"
        assert re.findall(pattern, done.stdout) == [str(rank) for rank in range(ranks)], done.stdout
    assert invoke("status", "--job", job).stdout == "running\n"


def check_end(invoke: Callable[..., Any], job: str, ranks: int = 1) -> None:
    """Fetch a job that was told to end: it has its own exit code, and each window is kept."""
    fetched = invoke("fetch", "--job", job, "--no-html")
    assert (fetched.returncode, "exit code 7" in fetched.stderr) == (5, True), fetched.stderr
    assert fetched.stdout.count(".pt.trace.json.gz: ") == 2 * ranks, fetched.stdout


def write_site(directory: Path) -> Path:
    """Write the double and train.py, and return the directory, whose .env is a test's."""
    site = directory / "site" / "torch"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text(f"KINETO = True\n{DOUBLE.read_text()}{PROFILER}")
    (directory / "train.py").write_text(TRAIN)
    return reporting_here(directory)
