"""Attention by single kernels: a product, a softmax of its result, and a product with that.

Scores, masks, softmax and dropout are kernels of their own. Each reads and writes a matrix with a
number for each pair of words, which a fused kernel keeps on the chip.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.ends import Lengths
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.peaks import FP32, find_format
from gpu_profile.analysis.replay.edits.kernels.upcasts import is_cast
from gpu_profile.analysis.tables.kernel_class import classify_kernel

LEAST_NS = 10_000
"""A shorter softmax may be a gate or a head of a few numbers, and is no cost of memory."""
LEAST_PART = 0.25
"""Of the softmax's time. What takes less between the products works on a smaller tensor, such as a
copy of the values: scores of 197 words are three times as many numbers as the values of a head."""
LEAST_PRODUCT = 0.08
"""Of the softmax's time, which reads and writes the scores once. A product, which writes or reads
them once, takes 0.2 of it in bf16 where the softmax is in fp32 (H200)."""
MOST_PRODUCT, MOST_SCALAR = 4.0, 10.0
"""The same. Attention multiplies over 32 to 256 numbers of a head, a head of classes over 500 and
more. Without tensor cores a product takes longer."""
LEAST_COPIES = 0.5
"""Of the time of products with a vector. A word alone has few scores: what costs time is that keys
and values are copied, for each head of queries that shares them."""
_OTHER, _PRODUCT, _SCALAR, _VECTOR, _COPY, _POINTWISE = "XPFVCW"
_SOFTMAX, _BACKWARD, _MAX, _EXP, _SUM = "SBMEU"
"""What a kernel is, as a letter: _OTHER ends a chain."""
_PRODUCTS = _PRODUCT + _SCALAR + _VECTOR
MOST_COPIES = 4
"""Of the operands before the first product, and of the result after the last."""
_PATTERNS = (
    (_OTHER, r"log_?softmax|logsumexp|nll_|cross_?entropy|log\d*p?_kernel|topk|argm|scan|sort"),
    (_OTHER, r"softmax_warp_\w+<[^()]*(\(int\))?\d+, (\(bool\)1|true)"),  # of logarithms
    (_OTHER, r"spatialsoftmax"),  # not over the last dimension, as that of attention is
    (_BACKWARD, r"softmax.*backward"),
    (_SOFTMAX, r"softmax"),
    (_EXP, r"[:_]exp_kernel"),
    (_SUM, r"reduce_kernel.*sum_functor"),
    (_MAX, r"reduce_kernel.*(MaxOps|MaxNan|max_functor)"),
    (_POINTWISE, r"vectorized_gather"),  # of a bias by the distance of two words
)
_NAMES = tuple((kind, re.compile(text, re.IGNORECASE)) for kind, text in _PATTERNS)
Codes = NDArray[np.signedinteger[Any]]
_CONVOLUTION = re.compile(r"conv|fprop|wgrad|dgrad|winograd", re.IGNORECASE)
# A chain has at most so many kernels between its products: no regular expression takes long.
_SOFTLY = (
    "[CWU]{0,30}(?P<softmax>S)[CWU]{0,30}"
    "|[CWU]{0,20}M[CWU]{0,9}(?P<exp>E)[CWU]{0,9}U[CWU]{0,20}"  # by hand
)
_CHAINS = re.compile(
    f"(?P<first>[PFV])(?:{_SOFTLY})(?P<last>[PFV])"
    "|(?:(?P<before>[PFV])[CW]{0,9})?(?P<left>[PFV])[CWU]{0,30}(?P<backward>B)[CWU]{0,30}"
    "(?P<right>[PFV])(?:[CW]{0,9}(?P<after>[PFV]))?"
)


@dataclass(frozen=True, eq=False)
class AttentionKernels:
    """Rows of the kernels of such chains: the products of the `forward` and `backward` passes,
    those with a `vector`, what works on the `scores`, and `copies` of operands and results. Of the
    products, the `joined_products` ones are no launches of a fused kernel, which has one forward
    and two backward.
    """

    forward: IntArray
    backward: IntArray
    vector: IntArray
    scores: IntArray
    copies: IntArray
    joined_products: IntArray

    def of(self, rows: IntArray) -> "AttentionKernels":
        """The same kernels by their rows in another table, where those found are `rows` of it."""
        return AttentionKernels(*(rows[getattr(self, part.name)] for part in fields(self)))


NO_ATTENTION = AttentionKernels(*(np.empty(0, np.int64) for _ in fields(AttentionKernels)))


def find_letter(name: str) -> str:
    """What a kernel is in a chain, by its full name."""
    group = classify_kernel(name)
    if group == "GEMM":
        if _CONVOLUTION.search(name):
            return _OTHER
        if "splitkreduce" in name.lower():
            return _POINTWISE
        if "gemv" in name.lower():
            return _VECTOR
        return _SCALAR if find_format(name) == FP32 else _PRODUCT
    for kind, pattern in _NAMES:
        if pattern.search(name):
            return kind
    if group == "copy":
        return _COPY if "copy_kernel" in name and not is_cast(name) else _POINTWISE
    return _POINTWISE if group == "elementwise" else _OTHER


def may_be_attention(letters: Sequence[str]) -> bool:
    """Whether there is a softmax among kernels of these letters."""
    return not {_SOFTMAX, _BACKWARD, _EXP}.isdisjoint(letters)


def find_attention(
    letters: Sequence[str], name: Codes, stream: Codes, start: IntArray, length: Lengths
) -> AttentionKernels:
    """The chains among kernels, given by their columns. `letters`: of each name, by find_letter();
    `length`: the time of each kernel (ns).
    """
    if not may_be_attention(letters):
        return NO_ATTENTION
    parts: dict[str, list[int]] = {part.name: [] for part in fields(AttentionKernels)}
    order = np.lexsort((start, stream))
    for rows in np.split(order, 1 + np.flatnonzero(np.diff(stream[order]))):
        text = "".join([letters[code] for code in name[rows].tolist()])
        times = length[rows].tolist()
        for match in _CHAINS.finditer(text):
            if chain := _read_chain(match, times):
                for part, places in chain.items():
                    parts[part] += rows[places].tolist()
    return _make_kernels(parts)


def _make_kernels(parts: Mapping[str, Sequence[int]]) -> AttentionKernels:
    return AttentionKernels(**{part: np.array(rows, np.int64) for part, rows in parts.items()})


def _read_chain(match: re.Match[str], times: Sequence[int]) -> dict[str, list[int]] | None:
    """The places of a chain's kernels; None for what is no attention."""
    text = match.string
    softmax = max(map(match.start, ("softmax", "exp", "backward")))
    products = [place for place in range(*match.span()) if text[place] in _PRODUCTS]
    left = max(place for place in products if place < softmax)
    right = min(place for place in products if place > softmax)
    fitting = [place for place in products if _fits(text[place], times[place], times[softmax])]
    least = LEAST_PART * times[softmax]
    between = range(left + 1, right)
    copies = [
        *(place for place in between if times[place] < least),
        *_list_copies(text, range(products[0] - 1, -1, -1)),
        *_list_copies(text, range(products[-1] + 1, len(text))),
    ]
    scores = [place for place in between if times[place] >= least]
    part = "backward" if match["backward"] else "forward"
    if _VECTOR in {text[left], text[right]}:
        part = "vector"
        copied, multiplied = (sum(times[place] for place in part) for part in (copies, products))
        is_attention = copied >= LEAST_COPIES * multiplied
    else:
        is_attention = times[softmax] >= LEAST_NS and {left, right} <= {*fitting}
    joined = products[2:] if match["backward"] else products[1:]
    chain = {part: fitting, "scores": scores, "copies": copies, "joined_products": joined}
    return chain if is_attention else None


def _fits(letter: str, time: int, softmax_time: int) -> bool:
    """Whether a product may write or read the scores, by its time and that of the softmax. One with
    a vector reads a matrix of keys or values.
    """
    most = {_SCALAR: MOST_SCALAR, _VECTOR: float("inf")}.get(letter, MOST_PRODUCT)
    return LEAST_PRODUCT * softmax_time <= time <= most * softmax_time


def _list_copies(text: str, places: range) -> Iterator[int]:
    return itertools.takewhile(lambda place: text[place] == _COPY, places[:MOST_COPIES])
