"""Floating-point operations of an operator, by the shapes of its arguments.

The formulas are those of torch.utils.flop_counter
(https://github.com/pytorch/pytorch/blob/v2.11.0/torch/utils/flop_counter.py): a multiplication
and an addition count as two; attention counts in full also where it is causal; its backward counts
the scores that it computes again. Counted after the run, because that module's mode disables
compilation in the job.
"""

from collections.abc import Callable, Iterable, Mapping
from math import prod

from gpu_profile.analysis.modules.op_shapes import OpShapes, Shape

Sizes = tuple[Shape, ...]
ConvOutputs = Mapping[tuple[Shape, Shape], Shape]
"""The shape of a convolution's output by those of its input and its weight."""

CONVOLUTION_BACKWARD = "aten::convolution_backward"
_CONVOLUTIONS = frozenset(
    f"aten::{name}" for name in ("convolution", "_convolution", "cudnn_convolution")
)


def count_flops(op: OpShapes, outputs: ConvOutputs) -> int | None:
    """The FLOPs of one call; 0 for an operator without a formula, None if its shapes do not say.

    A convolution's arguments do not tell its output: it is looked up in `outputs`.
    """
    if op.name in _CONVOLUTIONS:
        image, weight = (*op.shapes, (), ())[:2]
        output = outputs.get((image, weight))
        return _count_convolution(image, weight, output) if output else None
    formula = _FORMULAS.get(op.name)
    if formula is None:
        return 0
    try:
        return formula(op.shapes)
    except (ValueError, IndexError):
        return None


def find_conv_outputs(ops: Iterable[OpShapes]) -> dict[tuple[Shape, Shape], Shape]:
    """The outputs of the convolutions whose backward pass was recorded: (gradient of the output,
    input, weight) are the first shapes of aten::convolution_backward.
    """
    return {
        (op.shapes[1], op.shapes[2]): op.shapes[0]
        for op in ops
        if op.name == CONVOLUTION_BACKWARD and len(op.shapes) > 2
    }


def _count_mm(sizes: Sizes) -> int:
    """Source: mm_flop()."""
    (m, k), (_, n) = sizes[:2]
    return 2 * m * k * n


def _count_bmm(sizes: Sizes) -> int:
    """Source: bmm_flop()."""
    (b, m, k), (_, _, n) = sizes[:2]
    return 2 * b * m * k * n


def _count_convolution(image: Shape, weight: Shape, output: Shape) -> int:
    """Source: conv_flop_count(). In a transposed convolution the points of the input count, which
    are fewer than those of its output.
    """
    points = min(prod(image[2:]), prod(output[2:]))
    return 2 * image[0] * points * prod(weight)


def _count_convolution_backward(sizes: Sizes) -> int:
    """Source: conv_backward_flop(), with the gradients of input and weight, as many FLOPs each as
    the forward has. torch computes none for the first layer's input, which no shape says.
    """
    output, image, weight = sizes[:3]
    return 2 * _count_convolution(image, weight, output)


def _count_attention(sizes: Sizes) -> int:
    """Source: sdpa_flop_count(), of query, key and value as (batch, heads, length, width)."""
    (b, h, length, width), (*_, other, _), (*_, out) = sizes[:3]
    return 2 * b * h * length * other * (width + out)


def _count_attention_backward(sizes: Sizes) -> int:
    """Source: sdpa_backward_flop_count(), of the output's gradient, query, key and value."""
    (b, h, length, width), (*_, other, _), (*_, out) = sizes[1:4]
    return 2 * b * h * length * other * (3 * width + 2 * out)


def _with_heads_first(formula: Callable[[Sizes], int]) -> Callable[[Sizes], int]:
    """The formula for arguments as (batch, length, heads, width)."""
    return lambda sizes: formula(tuple(_swap(shape) for shape in sizes))


def _swap(shape: Shape) -> Shape:
    return (shape[0], shape[2], shape[1], shape[3]) if len(shape) == 4 else shape


_KINDS = ("efficient", "flash", "cudnn")
_FORMULAS: Mapping[str, Callable[[Sizes], int]] = {
    "aten::mm": _count_mm,
    "aten::_scaled_mm": _count_mm,
    "aten::addmm": lambda sizes: _count_mm(sizes[1:]),
    "aten::_addmm_activation": lambda sizes: _count_mm(sizes[1:]),
    "aten::bmm": _count_bmm,
    "aten::baddbmm": lambda sizes: _count_bmm(sizes[1:]),
    CONVOLUTION_BACKWARD: _count_convolution_backward,
    **{f"aten::_scaled_dot_product_{kind}_attention": _count_attention for kind in _KINDS},
    **{
        f"aten::_scaled_dot_product_{kind}_attention_backward": _count_attention_backward
        for kind in _KINDS
    },
    "aten::_flash_attention_forward": _with_heads_first(_count_attention),
    "aten::_flash_attention_backward": _with_heads_first(_count_attention_backward),
    "aten::_efficient_attention_forward": _with_heads_first(_count_attention),
    "aten::_efficient_attention_backward": _with_heads_first(_count_attention_backward),
    "flash_attn::_flash_attn_forward": _with_heads_first(_count_attention),
    "flash_attn::_flash_attn_backward": _with_heads_first(_count_attention_backward),
}
