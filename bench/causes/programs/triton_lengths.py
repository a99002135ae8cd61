"""Embeddings of texts; the cause compiles a kernel of Triton for the length of each batch."""
# causes: compile
import itertools
import os
import tempfile

# No run finds what an earlier one compiled.
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from parts import DEVICE, Block, use_gpu  # noqa: E402
from torch import nn  # noqa: E402
from turns import Turns  # noqa: E402

BATCH, LONGEST, WIDTH, COLUMNS = 32, 512, 768, 256


@triton.jit
def pool(x, y, length, width, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The mean of a text's words, by columns."""
    text = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for word in range(length):
        total += tl.load(x + (text * length + word) * width + columns).to(tl.float32)
    tl.store(y + text * width + columns, total / length)


@triton.jit
def pool_constant(x, y, width, LENGTH: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The same for a length that the compiler knows."""
    text = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for word in range(LENGTH):
        total += tl.load(x + (text * LENGTH + word) * width + columns).to(tl.float32)
    tl.store(y + text * width + columns, total / LENGTH)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    words = nn.Embedding(8192, WIDTH).to(DEVICE)
    blocks = nn.Sequential(*(Block(WIDTH, 12) for _ in range(12))).to(DEVICE)
    tokens = torch.randint(8192, (BATCH, LONGEST), device=DEVICE)
    means = torch.empty(BATCH, WIDTH, device=DEVICE)
    grid = (BATCH, WIDTH // COLUMNS)
    new, known = iter(range(LONGEST, 0, -1)), itertools.cycle(range(LONGEST, LONGEST - 80, -1))
    while turns.step():
        length = next(new if turns.planted else known)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            x = blocks(words(tokens[:, :length])).contiguous()
        if turns.planted:
            pool_constant[grid](x, means, WIDTH, LENGTH=length, COLUMNS=COLUMNS)
        else:
            pool[grid](x, means, length, WIDTH, COLUMNS=COLUMNS)
