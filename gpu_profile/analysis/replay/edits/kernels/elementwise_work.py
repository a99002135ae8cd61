"""What elementwise kernels of PyTorch, CuPy and JAX do, by their names."""

import functools
import re
from dataclasses import dataclass

LINK = -1
"""The `elements` of kernels that stand within a chain, whatever the number of their threads: sums
of rows, as a norm has them, and concatenations."""
_LINKS = re.compile(
    r"at::native::(\(anonymous namespace\)::|<unnamed>::)?(reduce_kernel|CatArrayBatchedCopy)"
)
_CUPY = re.compile(r"cupy_(\w+?)__(\w+)$")
_TORCH = re.compile(
    r"at::native::((?P<vectors>vectorized(_templated)?_elementwise_kernel)"
    r"|unrolled(_templated)?_elementwise_kernel"
    r"|elementwise_kernel<(\(int\))?\d+, *(\(int\))?(?P<elements>\d+),)"
)
_XLA = re.compile(r"(?P<single>wrapped)_(?P<operator>\w+?)(_\d+)?$|loop_\w+_fusion(_\d+)?$")
"""A kernel of one operation of JAX, as it has outside of jax.jit, and one that XLA has fused: an
array and a number, or what was compiled together."""
_XLA_UNARY = frozenset(
    (
        *(
            "abs",
            "atanh",
            "cbrt",
            "ceil",
            "cosine",
            "erf",
            "exponential",
            "floor",
            "log",
            "logistic",
        ),
        *("negate", "not", "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
        *("exponential_minus_one", "is_finite", "log_plus_one"),
    )
)
_XLA_BINARY = frozenset(
    (
        *("add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "or"),
        *("power", "remainder", "subtract", "xor"),
    )
)
_XLA_ELEMENTS = 4  # of a thread
_POINTERS = re.compile(r"array<char ?\*, *(?:\(unsigned long\))?(\d)")
_COPIES = re.compile(r"copy_kernel|FillFunctor")
_UNARY = re.compile(r"[AB]UnaryFunctor|CUDAFunctorOn")
_BINARY = re.compile(r"BinaryFunctor|CUDAFunctor_add")
_LAMBDA = re.compile(r"lambda ?\(([^()]+)\)")


@dataclass(frozen=True)
class Work:
    """What an elementwise kernel does, by its full name: the number of `arrays` that it reads and
    writes, whether it only copies, casts or fills, or is fused already, and how many `elements` a
    thread has, LINK if its threads do not tell the size of its arrays.
    """

    arrays: int
    is_copy: bool
    elements: int


@functools.lru_cache(maxsize=1024)  # each name is asked for by the fact and by the replay
def find_work(name: str) -> Work | None:
    """The work of an elementwise kernel of PyTorch, CuPy or JAX; None for others."""
    if match := _CUPY.match(name):
        arrays = sum(kind == "bool" or kind[-1:].isdigit() for kind in match[2].split("_"))
        return Work(max(arrays, 1), match[1] == "copy", 1)
    if match := _XLA.match(name):
        return _find_xla_work(match["single"], match["operator"])
    if _LINKS.search(name):
        return Work(2, is_copy=True, elements=LINK)
    match = _TORCH.search(name)
    if not match:
        return None
    elements = 8 if match["vectors"] else int(match["elements"] or 4)
    return Work(_count_arrays(name), bool(_COPIES.search(name)), elements)


def _find_xla_work(is_single: str | None, operator: str | None) -> Work | None:
    """Work of a kernel of XLA. One that is fused reads one array at the least."""
    if not is_single:
        return Work(2, is_copy=True, elements=_XLA_ELEMENTS)
    if operator in _XLA_UNARY or operator in _XLA_BINARY:
        return Work(2 + (operator in _XLA_BINARY), is_copy=False, elements=_XLA_ELEMENTS)
    return Work(2, is_copy=True, elements=_XLA_ELEMENTS) if operator == "convert" else None


def _count_arrays(name: str) -> int:
    """The arrays that a kernel of PyTorch reads and writes."""
    if pointers := _POINTERS.search(name):
        return int(pointers[1])
    if _UNARY.search(name):
        return 2
    if _BINARY.search(name):
        return 3
    # The last one is of the index: gpu_kernel_impl(...)::[lambda(int)].
    functions = _LAMBDA.findall(name)[:-1]
    return 2 + functions[-1].count(",") if functions else 2
