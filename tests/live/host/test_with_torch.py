"""profile --with torch on this machine, without nsys: a double of torch, whose profiler writes what
it was told to record.
"""

import gzip
import json
import sys
from pathlib import Path

import pytest

from gpu_profile.command import Result
from tests.invoked import invoke, reporting_here

DOUBLE = Path(__file__).parents[2] / "data" / "annotated" / "doubles" / "torch_double.py"
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
import sys, time, torch
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
for _ in range(int(sys.argv[1])):
    model()
    time.sleep(0.001)
    optimizer.step()
print("trained")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    site = tmp_path / "site" / "torch"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text(f"KINETO = True\n{DOUBLE.read_text()}{PROFILER}")
    (tmp_path / "train.py").write_text(TRAIN)
    return reporting_here(tmp_path)


def profile(place: Path, *words: str, steps: int = 9, **env: str) -> Result:
    """Type profile --with torch where PATH has no nsys."""
    site = f"--env=PYTHONPATH={place / 'site'}"
    command = (sys.executable, "train.py", str(steps))
    argv = ("profile", "--on=host", "--with=torch", "--gpus=0", "--no-html", "--name=t", site)
    words = ("--annotate=modules", *words)
    return invoke(*argv, *words, "--", *command, directory=place, PATH="/usr/bin:/bin", **env)


def test_a_program_is_recorded_and_read_without_nsys(place: Path) -> None:
    done = profile(place, "--env=RANK=0", "--env=WORLD_SIZE=1")
    assert done.returncode == 0, done.stderr
    assert "steps 0 to 8" in done.stdout
    assert "found by range gpu-profile:step" in done.stdout
    (run,) = place.glob("t-*")
    (trace,) = run.glob("rank0.*.pt.trace.json.gz")
    assert trace.stat().st_mode & 0o777 == 0o600
    assert json.loads(gzip.decompress(trace.read_bytes()))["distributedInfo"] == {
        "rank": 0,
        "world_size": 1,
    }
    assert not [path for path in run.iterdir() if path.name.startswith(".")]
    record = json.loads((run / "run.json").read_text())
    assert (record["spec"]["with"], record["nsys"]) == ("torch", [])
    table = invoke("stats", "--table=module_sum", "--format=json", directory=place)
    rows = json.loads(table.stdout)["module_sum"]
    assert {row["Module"] for row in rows} == {
        *("Module", "(optimizer Optimizer)", "(unattributed)")
    }


def test_a_part_is_recorded_and_a_program_that_ends_before_is_told(place: Path) -> None:
    done = profile(place, "--steps=4:8", steps=20)
    assert "steps 4 to 7" in done.stdout, done.stderr
    short = profile(place, "--steps=40:80")
    assert short.returncode == 6
    assert "no report of rank 0" in short.stderr
    assert "--steps 40:80: it ended after 9 steps. Choose --steps among" in short.stderr


def test_a_torch_without_kineto_goes_on_and_is_told(place: Path) -> None:
    site = place / "site" / "torch" / "__init__.py"
    site.write_text(site.read_text().replace("KINETO = True", "KINETO = False"))
    done = profile(place)
    assert done.returncode == 6
    log = next(place.glob("t-*/output.log")).read_text()
    assert "trained" in log
    assert "marks are off, the job goes on: RuntimeError: this torch is built without" in log
    assert "profile.py: rank 0: torch.profiler wrote no report" in log
