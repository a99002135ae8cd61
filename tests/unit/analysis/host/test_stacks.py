"""Sampled stacks: Python's from the payloads of NVTX marks, C and C++'s from call chains."""

import struct
from pathlib import Path

import pytest

from gpu_profile.analysis.host.frames import Frame
from gpu_profile.analysis.host.stacks import HostStacks, load_stacks
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.synthetic import MS, PYTHON, Rank, Recording, add_cpu_sample, ranks_of

TRAIN, LOOP = ("train", "/home/me/train.py", 30), ("&lt;module&gt;", "/home/me/main.py", 7)


def stacks_of(recording: Recording, folder: Path) -> tuple[HostStacks, ...]:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return load_stacks(database)


def rank_that_worked(ms: int = 1) -> Rank:
    """A rank whose host worked for so long, and then called CUDA once."""
    (rank,) = ranks_of(1)
    rank.work(1000 * ms)
    rank.kernel(10)
    return rank


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("collate", "/home/me/data.py", 9), "collate (data.py:9)"),
        (Frame("read", "/lib/libc.so.6"), "read (libc.so.6)"),
        (Frame("forward", "/x/sympy/__init__.py", 3), "forward (sympy.__init__.py:3)"),
        (Frame("start", ""), "start"),
    ],
)
def test_a_frame_is_named_without_its_directory(frame: Frame, text: str) -> None:
    assert str(frame) == text


@pytest.mark.parametrize(
    ("file", "of_user", "of_loader"),
    [
        ("/home/me/train.py", True, False),
        ("/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", False, False),
        ("/usr/lib/python3/dist-packages/x.py", False, False),
        ("<frozen importlib._bootstrap>", False, False),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", False, False),
        ("/venv/lib/python3.12/site-packages/torch/utils/data/_utils/fetch.py", False, True),
        ("/home/me/webdataset/cache.py", True, True),
        ("", False, False),
    ],
)
def test_whose_code_a_file_is(file: str, of_user: bool, of_loader: bool) -> None:
    frame = Frame("f", file)
    assert (frame.of_user, frame.of_loader) == (of_user, of_loader)


def test_python_samples_go_from_outermost_to_innermost(tmp_path: Path) -> None:
    rank = rank_that_worked(ms=2)
    rank.sample(0, TRAIN, LOOP, every_us=1000)
    (python,) = stacks_of(rank.recording, tmp_path)
    assert (python.kind, len(python)) == ("Python", 3)
    assert python.time.tolist() == [0, MS, 2 * MS]
    assert set(python.thread.tolist()) == {rank.thread}
    assert python.stack.tolist() == [0, 0, 0]
    (stack,) = python.stacks
    assert [str(frame) for frame in stack] == ["<module> (main.py:7)", "train (train.py:30)"]


def test_control_characters_in_a_name_reach_no_terminal(tmp_path: Path) -> None:
    rank = rank_that_worked()
    rank.sample(0, ("\x1b[2Jf" + "x" * 999, "/home/me/a\nb.py", 1), every_us=1000)
    (python,) = stacks_of(rank.recording, tmp_path)
    assert python.stacks[0][0].function == "?[2Jf" + "x" * 295
    assert python.stacks[0][0].name_of_file == "a?b.py"


def payload(schema: int, frames: int, length: int | None = None) -> bytes:
    """A payload that says it has so many frames, and holds one."""
    body = struct.pack("<QiI3Q", 1, 1, frames, 1, 2, 3)
    return struct.pack("<4Q", 2, schema, len(body) if length is None else length, 32) + body


@pytest.mark.parametrize(
    ("blob", "frames"),
    [
        (payload(PYTHON, 1), 1),
        (payload(PYTHON, 4_000_000_000), 1),
        (payload(PYTHON, 0), 0),
        (payload(PYTHON + 1, 1), 0),
        (payload(PYTHON, 1, length=1 << 40), 0),
        (payload(PYTHON, 1, length=2), 0),
        (payload(PYTHON, 1)[:40], 0),
        (b"", 0),
    ],
    ids=["whole", "many", "none", "schema", "too long", "too short", "cut", "empty"],
)
def test_a_payload_that_is_damaged_is_no_sample(blob: bytes, frames: int, tmp_path: Path) -> None:
    rank = rank_that_worked()
    rank.sample(0, TRAIN, every_us=1000)
    row = (5, None, 34, rank.thread, 2, None, None, blob)
    rank.recording.rows["NVTX_EVENTS"] = [row]
    stacks = stacks_of(rank.recording, tmp_path)
    assert [len(stack) for samples in stacks for stack in samples.stacks] == [1] * frames


def test_cpu_samples_of_threads_that_call_cuda(tmp_path: Path) -> None:
    rank = rank_that_worked()
    worker = Rank(rank.recording, 0, lane=50)  # a thread of a data loader
    add_cpu_sample(rank, 7, ("write(int, void*)", "/lib/libc.so.6"), ("0x1f", "/bin/python3.12"))
    add_cpu_sample(worker, 8, ("read", "/lib/libc.so.6"))
    (cpu,) = stacks_of(rank.recording, tmp_path)
    assert (cpu.kind, cpu.time.tolist(), cpu.thread.tolist()) == ("CPU", [7], [rank.thread])
    (stack,) = cpu.stacks
    assert [str(frame) for frame in stack] == ["[python3.12] (python3.12)", "write (libc.so.6)"]


def test_unknown_frames_and_an_interpreter_s_loop_are_left_out(tmp_path: Path) -> None:
    rank = rank_that_worked()
    evaluate = ("_PyEval_EvalFrameDefault", "/bin/python3.12")
    add_cpu_sample(rank, 7, evaluate, evaluate, ("0x1f", "[Unknown]"), evaluate, ("main", "/bin/a"))
    (cpu,) = stacks_of(rank.recording, tmp_path)
    assert [frame.function for frame in cpu.stacks[0]] == ["main", "_PyEval_EvalFrameDefault"]


def test_python_comes_first_and_a_recording_without_samples_has_none(tmp_path: Path) -> None:
    rank = rank_that_worked()
    assert stacks_of(rank.recording, tmp_path) == ()
    add_cpu_sample(rank, 7, ("main", "/bin/a"))
    rank.sample(0, TRAIN)
    (tmp_path / "run.sqlite").unlink()
    assert [stacks.kind for stacks in stacks_of(rank.recording, tmp_path)] == ["Python", "CPU"]


def test_samples_of_threads_that_never_call_cuda_are_none(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    add_cpu_sample(rank, 7, ("main", "/bin/a"))
    assert stacks_of(rank.recording, tmp_path) == ()
    rank.kernel(10)
    worker = Rank(rank.recording, 0, lane=50)
    rank.recording.rows["COMPOSITE_EVENTS"] = []
    add_cpu_sample(worker, 8, ("read", "/lib/libc.so.6"))
    (tmp_path / "run.sqlite").unlink()
    assert stacks_of(rank.recording, tmp_path) == ()
