"""Words found by meaning, in fp16: products of vectors of 301 numbers (300 and a bias).

The fix fills them with zeros to 304.
"""
# causes: unaligned_matmul
import torch
from parts import DEVICE, use_gpu
from turns import Turns

QUERIES, WORDS, NUMBERS, FILLED, PARTS = 4096, 400_000, 301, 304, 4


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    words = torch.randn(WORDS, NUMBERS, device=DEVICE, dtype=torch.float16)
    queries = torch.randn(QUERIES, NUMBERS, device=DEVICE, dtype=torch.float16)
    fill = (0, FILLED - NUMBERS)
    wide_words, wide_queries = (torch.nn.functional.pad(x, fill) for x in (words, queries))
    while turns.step():
        found = []
        pair = (queries, words) if turns.planted else (wide_queries, wide_words)
        for part in range(PARTS):
            rows = pair[1][part * WORDS // PARTS : (part + 1) * WORDS // PARTS]
            found.append((pair[0] @ rows.T).max(1).values)
        assert len(torch.stack(found).argmax(0).tolist()) == QUERIES
