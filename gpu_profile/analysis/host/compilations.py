"""When the host compiled, and tuned kernels, as samples of its Python stacks show."""

import re
from collections.abc import Callable

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.intervals import NOTHING, Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.host.frames import Stack
from gpu_profile.analysis.host.stacks import HostStacks

# FILE:FUNCTION of frames that are on the stack while a library compiles and never while what it
# compiled runs: torch.compile (2.1 to 2.11; torch/_dynamo/eval_frame.py is there in each call),
# torch's C++ and NVRTC extensions, Triton (2.1 to 3.6), JAX, CuPy, Numba, PyCUDA, Warp, FlashInfer.
COMPILER = re.compile(
    r"torch/_dynamo/(convert_frame|symbolic_convert|output_graph|aot_compile)\.py:"
    r"|torch/_inductor/(graph|scheduler|lowering|async_compile|select_algorithm)\.py:"
    r"|torch/_inductor/(codegen/[\w/]+|fx_passes/\w+|autotune_process|runtime/compile_tasks)\.py:"
    r"|torch/_inductor/compile_fx\.py:(_?compile_fx|fx_codegen|codegen_and|(fw|bw)_compile)"
    r"|torch/utils/cpp_extension\.py:|torch/cuda/_utils\.py:_nvrtc_compile"
    r"|triton/(backends/\w+/compiler|compiler/code_generator|runtime/(build|cache))\.py:"
    r"|triton/(compiler/compiler\.py:(compile|_init_handles)$|runtime/jit\.py:_do_compile$)"
    r"|jax/_src/(compiler|compilation_cache|interpreters/mlir)\.py:"
    r"|jax/_src/interpreters/pxla\.py:(_cached_compilation|_cached_lowering|lower_)"
    r"|cupy/cuda/(compiler|_compiler_cache)\.py:|cupyx/jit/_compile\.py:"
    r"|numba/(cuda/)?(core/)?(compiler|compiler_machinery|codegen)\.py:"
    r"|numba/cuda/cudadrv/(nvvm|nvrtc)\.py:"
    r"|pycuda/compiler\.py:|warp/(_src/)?build\.py:|flashinfer/jit/core\.py:"
)
# The same of functions that try the configurations of a kernel, one after the other.
TUNER = re.compile(
    r"triton/runtime/autotuner\.py:(_bench|benchmark)|triton/testing\.py:do_bench"
    r"|torch/_inductor/runtime/triton_heuristics\.py:(bench|benchmark_all_configs|autotune_to)"
)
# While such a package is imported, for seconds in a program that compiles nothing, its files are on
# the stack too, below the body of a module.
LIBRARY = re.compile(r"/(torch|triton|jax|jaxlib|cupyx?|numba|pycuda|warp|flashinfer)/")
BODY = "<module>"
# A sample stands for the time to the thread's next one, but for twice the usual time at most: a
# thread without samples in between may have done anything.
MOST_PERIODS = 2


def find_compilations(stacks: HostStacks, threads: IntArray) -> Intervals:
    """The time in which one of these threads compiled; nothing without Python samples."""
    return _find_work(stacks, threads, _compiles)


def find_tuning(stacks: HostStacks, threads: IntArray) -> Intervals:
    """The time in which one of these threads tuned kernels; nothing without Python samples."""
    return _find_work(stacks, threads, _tunes)


def _find_work(
    stacks: HostStacks, threads: IntArray, does_work: Callable[[Stack], bool]
) -> Intervals:
    works = [does_work(stack) for stack in stacks.stacks]
    if stacks.kind != "Python" or not any(works):
        return NOTHING
    rows = np.flatnonzero(is_among(stacks.thread, threads.tolist()))
    rows = rows[np.lexsort((stacks.time[rows], stacks.thread[rows]))]
    time, thread = stacks.time[rows], stacks.thread[rows]
    length = np.where(np.diff(thread) == 0, np.diff(time), 0)
    usual = float(np.median(length[length > 0])) if length.any() else 0.0
    working = np.array(works, bool)[stacks.stack[rows[:-1]]]
    end = time[:-1] + np.minimum(length, int(MOST_PERIODS * usual))
    return Intervals.union(time[:-1][working], end[working])


def _compiles(stack: Stack) -> bool:
    imports = any(frame.function == BODY and LIBRARY.search(frame.file) for frame in stack)
    return not imports and any(COMPILER.search(f"{frame.file}:{frame.function}") for frame in stack)


def _tunes(stack: Stack) -> bool:
    return any(TUNER.search(f"{frame.file}:{frame.function}") for frame in stack)
