"""The time in which a thread compiled, as its Python samples show."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.host.compilations import MOST_PERIODS, find_compilations
from gpu_profile.analysis.host.frames import Frame, Stack
from gpu_profile.analysis.host.stacks import NO_STACKS, HostStacks

MAIN, WORKER = 100, 101
RUN: Stack = (Frame("<module>", "/home/me/train.py", 3), Frame("step", "/home/me/train.py", 9))
DYNAMO = "/venv/lib/python3.12/site-packages/torch/_dynamo/"
COMPILE: Stack = (*RUN, Frame("compile_inner", f"{DYNAMO}convert_frame.py", 700))
IMPORT: Stack = (*COMPILE, Frame("<module>", "/venv/site-packages/torch/_inductor/graph.py", 1))
CALL: Stack = (*RUN, Frame("_fn", f"{DYNAMO}eval_frame.py", 500))


def samples(*rows: tuple[int, Stack], thread: int = MAIN, kind: str = "Python") -> HostStacks:
    """Samples of one thread: (time, stack)."""
    time, threads = np.array([row[0] for row in rows]), np.full(len(rows), thread)
    stacks = tuple(stack for _, stack in rows)
    return HostStacks(kind, time, threads, np.arange(len(rows)), stacks)


def spans(stacks: HostStacks, *threads: int) -> list[tuple[int, int]]:
    compilations: Intervals = find_compilations(stacks, np.array(threads or (MAIN,)))
    return list(zip(compilations.start.tolist(), compilations.end.tolist(), strict=True))


def test_a_sample_stands_for_the_time_to_the_next_one() -> None:
    rows = (0, RUN), (10, COMPILE), (20, COMPILE), (30, RUN), (40, RUN), (50, COMPILE), (60, RUN)
    assert spans(samples(*rows)) == [(10, 30), (50, 60)]


def test_a_thread_without_samples_in_between_may_have_done_anything() -> None:
    rows = (0, RUN), (10, RUN), (20, COMPILE), (1000, RUN), (1010, RUN), (1020, RUN)
    assert spans(samples(*rows)) == [(20, 20 + MOST_PERIODS * 10)]


@pytest.mark.parametrize(
    "file",
    [
        *("torch/_dynamo/symbolic_convert.py", "torch/_inductor/codegen/triton.py"),
        *("triton/compiler/code_generator.py", "triton/backends/nvidia/compiler.py"),
        *("jax/_src/compiler.py", "jax/_src/interpreters/mlir.py"),
        *("cupy/cuda/compiler.py", "cupyx/jit/_compile.py", "pycuda/compiler.py"),
        *("triton/runtime/build.py", "torch/_inductor/codegen/cuda/cuda_kernel.py"),
        *("numba/core/compiler_machinery.py", "numba_cuda/numba/cuda/codegen.py"),
        *("torch/utils/cpp_extension.py", "warp/_src/build.py", "flashinfer/jit/core.py"),
    ],
)
def test_files_of_compilers(file: str) -> None:
    compiling = (*RUN, Frame("f", f"/venv/site-packages/{file}"), Frame("g", "/usr/lib/re.py"))
    assert spans(samples((0, compiling), (10, RUN))) == [(0, 10)]


@pytest.mark.parametrize(
    ("file", "compiles", "runs"),
    [
        ("triton/compiler/compiler.py", "compile", "launch_metadata"),
        ("triton/runtime/jit.py", "_do_compile", "run"),
        ("torch/_inductor/compile_fx.py", "compile_fx_inner", "run"),
        ("jax/_src/interpreters/pxla.py", "_cached_compilation", "__call__"),
        ("torch/cuda/_utils.py", "_nvrtc_compile", "_get_device_index"),
    ],
)
def test_functions_of_files_that_compile_and_run(file: str, compiles: str, runs: str) -> None:
    rows = [(*RUN, Frame(name, f"/venv/site-packages/{file}")) for name in (compiles, runs)]
    assert spans(samples((0, rows[0]), (10, rows[1]), (20, RUN))) == [(0, 10)]


@pytest.mark.parametrize("stack", [RUN, CALL, IMPORT], ids=["program", "compiled", "import"])
def test_a_program_that_runs_or_imports_compiles_nothing(stack: Stack) -> None:
    assert spans(samples((0, stack), (10, stack), (20, stack))) == []


def test_other_threads_and_samples_of_c_tell_nothing() -> None:
    rows = (0, COMPILE), (10, COMPILE), (20, RUN)
    assert spans(samples(*rows, thread=WORKER)) == []
    assert spans(samples(*rows, thread=WORKER), MAIN, WORKER) == [(0, 20)]
    assert spans(samples(*rows, kind="CPU")) == []
    assert spans(NO_STACKS) == []


def test_the_last_sample_of_a_thread_has_no_length() -> None:
    one, two = samples((0, COMPILE)), samples((5, RUN), thread=WORKER)
    assert spans(one) == []
    joined = HostStacks(
        "Python",
        np.r_[one.time, two.time],
        np.r_[one.thread, two.thread],
        np.array([0, 1]),
        (COMPILE, RUN),
    )
    assert spans(joined, MAIN, WORKER) == []
