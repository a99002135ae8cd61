"""The type of the numbers that a kernel reads and writes, by its full name."""

import functools
import re

from gpu_profile.analysis.modules.peaks import FP64, find_format
from gpu_profile.analysis.tables.kernel_class import classify_kernel

DOUBLE, NARROWER = "double", "narrower"
HALF = 0.5
"""Of the bytes of doubles, in 32 bits."""
_LAMBDA = re.compile(r"lambda ?\(([^()]*)\)")
_FLOAT = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<double>double)\d?|float(?:\d|_\w+)?|half(?:2|_t)?|Half"
    r"|(?:nv_)?bfloat16(?:2|_t)?|BFloat16|tfloat32_t)(?![A-Za-z0-9_])"
)
"""In the template arguments of PyTorch, CUB, cuFFT and cuBLAS. The first one is of the data: in
`ReduceOp<float, MeanOps<float, double, …` the second one is of the sum."""
_POINTER = re.compile(r"\w+ ?\*")
_CUPY = re.compile(r"cupy_\w+?__(\w+)$")
_CUPY_UNTYPED = re.compile(r"cupyx?_(?!\w*__)")
_WIDE = re.compile(r"(?:float64|complex128)$")
_VECTOR = "gemv"
_IN_MEMORY = frozenset(("elementwise", "reduction", "copy", "norm", "optimizer", "embedding"))
_OTHERS_IN_MEMORY = re.compile(r"_fft\w*<|Radix|Sort|Scan|Unique|Histogram")
_MOST_CHARACTERS = 10_000  # a crafted name must not cost more time


@functools.lru_cache(maxsize=1024)  # each name is asked for by the fact and by the replay
def find_float(name: str) -> str:
    """DOUBLE or NARROWER, by the data's floating-point type; "" of other kernels and where the
    name does not say.
    """
    if match := _CUPY.match(name):
        return _find_cupy_float(match[1].split("_"))
    if match := _FLOAT.search(_find_types(name[:_MOST_CHARACTERS])):
        return DOUBLE if match["double"] else NARROWER
    number_format = find_format(name) if classify_kernel(name) == "GEMM" else ""
    return (DOUBLE if number_format == FP64 else NARROWER) if number_format else ""


@functools.lru_cache(maxsize=1024)
def find_left(name: str, has_only_doubles: bool = False) -> float:
    """The part of its bytes that a kernel of doubles that waits for memory moves in 32 bits; 1.0 of
    others. Names of CuPy's reductions say no type: they count where a program `has_only_doubles`.
    """
    if match := _CUPY.match(name):
        return _find_cupy_left(match[1].split("_"))
    if has_only_doubles and _CUPY_UNTYPED.match(name):
        return HALF
    return HALF if find_float(name) == DOUBLE and _waits_for_memory(name) else 1.0


def _waits_for_memory(name: str) -> bool:
    is_other = bool(_OTHERS_IN_MEMORY.search(name)) or _VECTOR in name.lower()
    return is_other or classify_kernel(name) in _IN_MEMORY


def _find_types(name: str) -> str:
    """The template arguments, or else the parameters that are arrays."""
    _, template, arguments = _leave_parameters(name).partition("<")
    return arguments if template else " ".join(_POINTER.findall(name))


def _leave_parameters(name: str) -> str:
    """The name without what is in round brackets, but for the parameters of lambdas: those are of
    an elementwise function, and others, such as an epsilon, of its caller.
    """
    left, depth = "", 0
    for character in _LAMBDA.sub(r"<\1>", name):
        depth += character == "("
        left += character if not depth else ""
        depth -= character == ")" and depth > 0
    return left


def _find_cupy_float(types: list[str]) -> str:
    """Of CuPy's elementwise kernels, whose names hold the types of all arrays and numbers."""
    if any(map(_WIDE.match, types)):
        return DOUBLE
    return NARROWER if any(re.match(r"(float|complex)\d", each) for each in types) else ""


def _find_cupy_left(types: list[str]) -> float:
    wide = [bool(_WIDE.match(each)) for each in types]
    sizes = [_find_bytes(each) for each in types]
    less = sum(HALF * size for size, is_wide in zip(sizes, wide, strict=True) if is_wide)
    return 1.0 - less / max(sum(sizes), 1)


def _find_bytes(cupy_type: str) -> int:
    """Of an element of an array; a number, as `float` is, has none."""
    bits = re.search(r"\d+$", cupy_type)
    return int(bits[0]) // 8 if bits else int(cupy_type == "bool")
