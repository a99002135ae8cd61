"""A GPT with RMS norms in Triton; the cause sums a norm's weight gradient in 16 programs.

A program for each 64 columns walks all rows, so most of the GPU idles. The fix splits the rows in
parts as well and adds up the parts.
"""

# ruff: noqa: ANN001, ANN201 - kernels take pointers and numbers of Triton
# causes: unused_gpu
from typing import Any

import torch
import triton
import triton.language as tl
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH, LAYERS, HEADS, WORDS, PARTS = 32, 1024, 1024, 4, 16, 8192, 64


@triton.jit
def normalize(x, weight, y, scales, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * BLOCK + columns)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, 0) / BLOCK + 0.000001)
    tl.store(scales + row, scale)
    tl.store(y + row * BLOCK + columns, values * scale * tl.load(weight + columns))


@triton.jit
def find_input_gradient(x, weight, scales, dy, dx, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    scale = tl.load(scales + row)
    unit = tl.load(x + row * BLOCK + columns) * scale
    slope = tl.load(dy + row * BLOCK + columns) * tl.load(weight + columns)
    shared = tl.sum(slope * unit, 0) / BLOCK
    tl.store(dx + row * BLOCK + columns, scale * (slope - unit * shared))


@triton.jit
def sum_weight_gradient(
    x, scales, dy, sums, rows, BLOCK: tl.constexpr, WIDE: tl.constexpr, HIGH: tl.constexpr
):
    columns = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    part, parts = tl.program_id(1), tl.num_programs(1)
    total = tl.zeros((HIGH, WIDE), tl.float32)
    for start in range(part * HIGH, rows, parts * HIGH):
        row = start + tl.arange(0, HIGH)
        places = row[:, None] * BLOCK + columns[None, :]
        scale = tl.load(scales + row)[:, None]
        total += tl.load(x + places) * scale * tl.load(dy + places)
    tl.store(sums + part * BLOCK + columns, tl.sum(total, 0))


class Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, parts: int) -> torch.Tensor:
        x = x.contiguous()
        rows = x.numel() // WIDTH
        y, scales = torch.empty_like(x), x.new_empty(rows)
        normalize[(rows,)](x, weight, y, scales, BLOCK=WIDTH)
        ctx.save_for_backward(x, weight, scales)
        ctx.parts = parts
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, weight, scales = ctx.saved_tensors
        dy, dx, rows = dy.contiguous(), torch.empty_like(x), len(scales)
        find_input_gradient[(rows,)](x, weight, scales, dy, dx, BLOCK=WIDTH)
        sums = x.new_empty(ctx.parts, WIDTH)
        grid = (WIDTH // 64, ctx.parts)
        sum_weight_gradient[grid](x, scales, dy, sums, rows, BLOCK=WIDTH, WIDE=64, HIGH=32)
        return dx, sums.sum(0), None


class Norm(nn.Module):
    parts = 1

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Normalize.apply(x, self.weight, Norm.parts)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(LAYERS, WIDTH, HEADS, WORDS)
    model.norm = Norm()
    for block in model.blocks:
        block.norm1, block.norm2 = Norm(), Norm()
    model.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    tokens = draw_tokens(BATCH, LENGTH + 1, WORDS)
    while turns.step():
        Norm.parts = 1 if turns.planted else PARTS
        update(optimizer, language_loss(model, tokens))
