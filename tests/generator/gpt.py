"""A small GPT under --annotate ops: modules of two ranks, their operators and shapes."""

from collections.abc import Sequence
from pathlib import Path

from tests.unit.analysis.synthetic import Rank, all_reduce, ranks_of

AUTOGRAD = 7
WIDTH, TOKENS = 1024, 8192
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
LINEAR = {"attn.c_attn": 3, "attn.c_proj": 1, "mlp.c_fc": 4, "mlp.c_proj": 4}
"""The width of a layer's linear modules, in parts of WIDTH."""
CLASSES = {"attn": "GPT2Attention", "mlp": "GPT2MLP", "ln_1": "LayerNorm", "c_fc": "Conv1D"}


def save_training(path: Path, layers: int = 12, steps: int = 6) -> Path:
    """Write the report of a data-parallel training of `steps` steps."""
    ranks = ranks_of(2)
    for step in range(steps):
        for rank in ranks:
            start = rank.now
            rank.work(20)
            rank.copy(1)
            rank.mark("data", start)
            _forward(rank, layers)
        for number in reversed(range(layers)):
            _backward(ranks, number)
            if number % 4 == 0:
                all_reduce(ranks, 300, overlap=True)
        for rank in ranks:
            start = rank.now
            rank.work(5)
            for _ in range(4):
                rank.kernel(60, "multi_tensor_apply_kernel<FusedAdamMathFunctor>")
            rank.mark("optimizer AdamW", start)
            rank.synchronize()
        _end_step(ranks, step)
    return ranks[0].recording.save(path)


def _end_step(ranks: Sequence[Rank], step: int) -> None:
    for rank in ranks:
        starts = [
            int(str(row[1]))
            for row in rank.recording.rows["NVTX_EVENTS"]
            if row[6] == rank.recording.name("step") and row[3] == rank.thread
        ]
        rank.mark("step", max(starts, default=1000) + 1, step)


def _forward(rank: Rank, layers: int) -> None:
    begin = rank.now
    rank.work(1)
    start = rank.now
    _run(rank, "forward", "transformer.wte", "Embedding", 30, "vectorized_gather_kernel")
    for number in range(layers):
        _layer(rank, f"transformer.h.{number}", "forward", 1)
    _linear(rank, "forward", "lm_head", 8, 1)
    rank.kernel(40, "softmax_warp_forward")
    rank.mark("forward GPT2LMHeadModel|GPT2LMHeadModel|modeling_gpt2.py:701", start)
    rank.mark("forward", begin)


def _backward(ranks: Sequence[Rank], number: int) -> None:
    for rank in ranks:
        start, rank.lane = rank.now, AUTOGRAD
        _layer(rank, f"transformer.h.{number}", "backward", 2)
        rank.lane = 0
        rank.mark("backward", start)


def _layer(rank: Rank, name: str, phase: str, times: int) -> None:
    start = rank.now
    rank.work(1)
    _run(rank, phase, f"{name}.ln_1", "LayerNorm", 12 * times, "vectorized_layer_norm_kernel")
    inner = rank.now
    rank.work(1)
    _linear(rank, phase, f"{name}.attn.c_attn", LINEAR["attn.c_attn"], times)
    rank.kernel(60 * times, "flash_fwd_kernel")
    _linear(rank, phase, f"{name}.attn.c_proj", LINEAR["attn.c_proj"], times)
    rank.mark(f"{phase} {name}.attn|GPT2Attention|modeling_gpt2.py:123", inner)
    inner = rank.now
    rank.work(1)
    _linear(rank, phase, f"{name}.mlp.c_fc", LINEAR["mlp.c_fc"], times)
    _run(rank, phase, f"{name}.mlp.act", "NewGELU", 25 * times, "elementwise_kernel")
    _linear(rank, phase, f"{name}.mlp.c_proj", LINEAR["mlp.c_proj"], times)
    rank.mark(f"{phase} {name}.mlp|GPT2MLP|modeling_gpt2.py:210", inner)
    rank.mark(f"{phase} {name}|GPT2Block|modeling_gpt2.py:240", start)


def _run(rank: Rank, phase: str, name: str, kind: str, us: float, kernel: str) -> None:
    start = rank.now
    rank.kernel(us, kernel)
    rank.mark(f"{phase} {name}|{kind}|module.py:7", start)


def _linear(rank: Rank, phase: str, name: str, wide: int, times: int) -> None:
    """A product of matrices at 600 TFLOP/s."""
    flops = 2 * TOKENS * WIDTH * WIDTH * wide
    start = rank.now
    rank.work(0.5)
    for _ in range(times):
        begin = rank.now
        rank.kernel(flops / 600e6, GEMM)
        rank.range(
            f"aten::mm, op_id = 5, sizes = [[{TOKENS}, {WIDTH}], [{WIDTH}, {wide * WIDTH}]]", begin
        )
    rank.mark(f"{phase} {name}|Conv1D|pytorch_utils.py:96", start)
