"""Read operators and the shapes of their arguments from the ranges of torch's emit_nvtx.

`--annotate ops` records them, for example `aten::addmm, seq = 12, op_id = 31, sizes = [[768], [8,
768], [768, 768]]`. The reader of ranges leaves seq and op_id out of names. The format is that of
getNvtxStr() in torch/csrc/profiler/util.cpp.
"""

import json
import re
from dataclasses import dataclass

Shape = tuple[int, ...]
_OP = re.compile(r"(?:^|:)((?:aten|flash_attn)::\w+), sizes = (\[.*\])$")
_MOST_LETTERS = 10_000


@dataclass(frozen=True)
class OpShapes:
    """An operator ("aten::mm") and the shapes of its arguments; () for one that is no tensor."""

    name: str
    shapes: tuple[Shape, ...]


def parse_op(text: str) -> OpShapes | None:
    """The operator of a range's name; None for other ranges, and for one without shapes."""
    match = _OP.search(text) if len(text) < _MOST_LETTERS else None
    if not match:
        return None
    try:
        sizes = json.loads(match[2])
    except (ValueError, RecursionError):
        return None
    return OpShapes(match[1], tuple(_read_shape(shape) for shape in sizes))


def _read_shape(value: object) -> Shape:
    """The shape, or () for anything else, such as a list of tensors."""
    sizes = value if isinstance(value, list) else []
    is_shape = all(isinstance(size, int) and 0 <= size < 1 << 40 for size in sizes)
    return tuple(sizes) if is_shape else ()
