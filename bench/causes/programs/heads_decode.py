"""Decoding of one long text, its attention in Triton; the cause has a block for each of 16 heads.

The fix has 32 for each head, and joins their parts.
"""
# causes: unused_gpu
import torch
import triton
import triton.language as tl
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

LAYERS, HEADS, WIDTH, WORDS, PARTS = 8, 16, 128, 16_384, 32


@triton.jit
def attend(query, keys, values, mixed, sums, words, part, WIDTH: tl.constexpr, EACH: tl.constexpr):  # type: ignore[no-untyped-def]
    """The values of a part of the words, weighted by how alike their keys are; the weights' sum."""
    head, number, at = tl.program_id(0), tl.program_id(1), tl.arange(0, WIDTH)
    wanted = tl.load(query + head * WIDTH + at)
    mix, total = tl.zeros((WIDTH,), tl.float32), 0.0
    for first in range(number * part, number * part + part, EACH):
        place = (head * words + first + tl.arange(0, EACH))[:, None] * WIDTH + at[None, :]
        weight = tl.exp(tl.sum(tl.load(keys + place) * wanted[None, :], 1) * 0.01)
        mix += tl.sum(tl.load(values + place) * weight[:, None], 0)
        total += tl.sum(weight, 0)
    row = head * tl.num_programs(1) + number
    tl.store(mixed + row * WIDTH + at, mix)
    tl.store(sums + row, total)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    keys = torch.randn(LAYERS, HEADS, WORDS, WIDTH, device=DEVICE)
    values = torch.randn_like(keys)
    size = HEADS * WIDTH
    layers = nn.ModuleList(
        nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        for _ in range(LAYERS)
    ).to(DEVICE)
    word = torch.randn(8, size, device=DEVICE)
    while turns.step():
        parts = 1 if turns.planted else PARTS
        for layer, key, value in zip(layers, keys, values, strict=True):
            query = word[0].contiguous()
            mixed = torch.empty(HEADS, parts, WIDTH, device=DEVICE)
            sums = torch.empty(HEADS, parts, 1, device=DEVICE)
            part = WORDS // parts
            attend[(HEADS, parts)](query, key, value, mixed, sums, WORDS, part, WIDTH, 32)
            word = word + (mixed.sum(1) / sums.sum(1)).view(1, size)
            word = nn.functional.layer_norm(word + layer(word), (size,))
