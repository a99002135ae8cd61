"""Names for the host's pauses: stacks, garbage collections and compilations of a program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_profile_pauses.pause_marks import LATE_BIT
from gpu_profile_pauses.sampler import PERIOD_NS
from gpu_profile_pauses.stacks import StackTexts, read_stack, split_notes

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.further import keep_first

WAIT = (
    "import os, time; log = os.environ['TOOL_LOG']\n"
    "while not os.path.exists(log) or 'stack |' not in open(log).read(): time.sleep(0.01)\n"
)
"""Waits for the first stack: a busy machine starts the thread that reads late."""
PROGRAM = f"""
import torch, gc, threading, sys, time
{WAIT}
def collate():
    start = time.perf_counter()
    while open(log).read().count("| collate") < 4:
        sum(range(100_000))
    return time.perf_counter() - start

def collect():
    nodes = [[] for _ in range(200_000)]
    for node in nodes:
        node.append(node)
    del nodes
    gc.collect()

def read():
    while open(log).read().count("| read") < 4:
        time.sleep(0.2)

reader = threading.Thread(target=read)
start = time.perf_counter()
reader.start()
collating = collate()
collect()
import torch._dynamo.convert_frame as convert
convert._compile(collate.__code__)
reader.join()
reading = time.perf_counter() - start
print(1e3 * collating, 1e3 * reading)
print(threading.get_native_id(), reader.native_id, threading.active_count())
"""


def run(site: Path, tool: Path, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PYTHONPATH": f"{AGENT / 'annotate'}{os.pathsep}{site}",
        "GPU_PROFILE_ANNOTATE": "steps",
        "NVTX_INJECTION64_PATH": str(tool),
        "TOOL_LOG": str(site / "log"),
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
    (site / "program.py").write_text(code)
    words = [sys.executable, "program.py"]
    return subprocess.run(words, env=environ, cwd=site, capture_output=True, text=True)


def list_marks(site: Path) -> list[tuple[int, int, str]]:
    """(thread, ns, message) of each mark."""
    if not (site / "log").exists():
        return []
    lines = (site / "log").read_text().splitlines()
    words = (line.split(" ", 3) for line in lines if line.startswith("mark "))
    length = (1 << LATE_BIT) - 1
    return [(int(thread), int(number) & length, text) for _, thread, number, text in words]


def test_a_program_s_pauses_have_names(site: Path, tool: Path) -> None:
    compiler = "def _compile(code):\n    import time\n    time.sleep(0.05)\n"
    (site / "torch" / "_dynamo").mkdir()
    (site / "torch" / "_dynamo" / "__init__.py").write_text("")
    (site / "torch" / "_dynamo" / "convert_frame.py").write_text(compiler)
    path = f"__path__ = [{str(site / 'torch')!r}]\n"
    with (site / "torch" / "__init__.py").open("a") as file:
        file.write(path)
    done = run(site, tool, PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")
    collating, reading, *ids = done.stdout.split()
    main, reader, threads = map(int, ids)
    assert threads == 1, "Python's threading does not know our thread"
    marks = list_marks(site)
    ms = {thread: 0.0 for thread, *_ in marks}
    for thread, ns, text in marks:
        if f'| {"read" if thread == reader else "collate"} "program.py" ' in text:
            ms[thread] += ns / 1e6
    assert 0 < ms[main] <= float(collating) + 200
    assert 0 < ms[reader] <= float(reading) + 300
    assert not any("gpu_profile" in text or "frozen importlib" in text for *_, text in marks)
    assert max(ns for *_, ns, text in marks if text == "garbage collection") > 1e6
    ((thread, ns, text),) = [mark for mark in marks if mark[2].startswith("compilation")]
    assert (thread, text) == (0, 'compilation | collate "program.py" 6')
    assert 50e6 <= ns < 1e9


def test_a_frame_at_its_first_instruction_has_a_text() -> None:
    """Its `f_lasti` is -1 in a Python before 3.11: no identity of a function is taken for it."""
    code = compile("", "first.py", "exec")
    assert StackTexts().text([code, -1]) == 'stack | <module> "first.py" 1'


def test_a_line_is_what_the_frame_says() -> None:
    """It is found by the code alone: a look keeps no frame, and tells of several looks at once."""

    def inner(depth: int) -> tuple[str, int]:
        if depth:
            return inner(depth - 1)
        frame = sys._getframe()
        return StackTexts().text(read_stack(frame)), frame.f_lineno

    text, line = inner(2)
    *_, third, second, first = text.split(" | ")
    assert [words.split('" ')[1] for words in (third, second, first)] == ["0", "0", str(line)]
    assert first.startswith("inner ")


def test_looks_are_noted_one_after_the_other() -> None:
    """Each has its time at its end; one in which the main thread had no frame has that alone."""
    code = test_looks_are_noted_one_after_the_other.__code__
    looks = [(10, [code, 4, code, 700]), (30, []), (50, [code, -1])]
    notes = [note for now, stack in looks for note in (*stack, now)]
    assert list(split_notes(notes)) == looks
    assert list(split_notes([])) == []


ENDINGS = {
    "exit": "raise SystemExit(3)",
    "os._exit": "import os; os._exit(3)",
    "a thread that lives on": "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    "\nraise SystemExit(3)",
    "a fork": "import os; child = os.fork()\n"
    "if child == 0: time.sleep(0.1); os._exit(3)\n"
    "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
    "no callbacks": "import gc; gc.callbacks.clear(); gc.disable(); gc.collect(); sys.exit(3)",
    "another hook for errors": "sys.excepthook = lambda *_: sys.exit(3)\nraise ValueError",
    "patched functions": "import _thread\n"
    "time.sleep = _thread.start_new_thread = threading._active = None\nsys.exit(3)",
}


@pytest.mark.parametrize("ending", keep_first(2, ENDINGS))
def test_a_program_ends_as_without_the_marks(site: Path, tool: Path, ending: str) -> None:
    code = f"import torch, sys, threading\n{WAIT}{ENDINGS[ending]}\n"
    done = run(site, tool, code)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    assert any('<module> "program.py"' in text for *_, text in list_marks(site))


@pytest.mark.parametrize("level", ["none", ""])
def test_no_marks_without_a_level(site: Path, tool: Path, level: str) -> None:
    code = "import torch, gc, time; time.sleep(0.05); print(gc.callbacks)"
    assert run(site, tool, code, GPU_PROFILE_ANNOTATE=level).stdout == "[]\n"
    assert list_marks(site) == []


@pytest.mark.parametrize("more", [{}, {"GPU_PROFILE_CALLS_TRACED": "yes"}], ids=["", "traced"])
def test_a_program_of_another_library_has_names_too(
    site: Path, tool: Path, more: dict[str, str]
) -> None:
    (site / "cupy.py").write_text("")
    code = f"import sys, cupy\n{WAIT}assert 'torch' not in sys.modules"
    done = run(site, tool, code, **more)
    assert (done.returncode, done.stderr) == (0, "")


def test_stacks_are_read_again_after_forks(site: Path, tool: Path) -> None:
    """The thread ends for each fork, from Python 3.12 on, and begins at the next collection.

    Its first mark tells of one period, as that of a new thread, not of the time since the fork,
    which has a mark of its own.
    """
    code = f"""
import torch, gc, threading
{WAIT}
def start_worker():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
for _ in range(3):
    start_worker()
gc.collect()
def behind():
    while '| behind "program.py"' not in open(log).read():
        time.sleep(0.01)
behind()
print(threading.main_thread().native_id)
"""
    done = run(site, tool, code)
    assert (done.returncode, done.stderr) == (0, "")
    lengths = [ns for thread, ns, _ in list_marks(site) if thread == int(done.stdout)]
    has_hook = sys.version_info >= (3, 12)
    assert lengths.count(PERIOD_NS) == (2 if has_hook else 1)
    forks = [text for thread, ns, text in list_marks(site) if thread == 0 and ns > 0]
    forks = [text for text in forks if '| start_worker "program.py" ' in text]
    assert len(forks) == (3 if has_hook else 0)
