"""Classify kernels by name: GEMM, attention, norm and so on."""

import functools
import re

from gpu_profile.analysis.tables.comm_kernels import comm_kernel
from gpu_profile.formats.function_names import split_name, telling_words

COMMUNICATION_CLASS, OTHER_CLASS = "communication", "other"

# The first pattern counts that matches the function's name, or the template arguments if these
# name the work (`elementwise_kernel`, `device_kernel`). Order matters: FlashAttention is a CUTLASS
# `device_kernel`, split-K reductions belong to their GEMM, and triton's names list what it fused
# (`triton_red_fused_native_layer_norm_0`).
_PATTERNS = {
    "optimizer": r"multi_?tensor|adam|\bsgd|fused_sgd|\blamb(?!da)|adagrad|rmsprop|adafactor|muon",
    "attention": r"attn|attention|flash_(fwd|bwd)|fmha|sdpa|batch(prefill|decode)|paged_?kv|mla_"
    r"|masked_softmax",
    "norm": r"(layer|rms|batch|group|instance|l2)_?norm|gammabeta|rowwisemoments|welford"
    r"|(\b|_)(ln|bn)_(fwd?|bwd?)|normalization",
    "embedding": r"(?<!rotary_)embedding|indexselect|vectorized_gather|index_select|krn_partial"
    r"|indexing_backward|compute_grad_weight",
    "GEMM": r"gemm|gemv|xmma|nvjet|cutlass|cublas|tensorop|wgmma|splitkreduce|matmul|triton_tem"
    r"|conv(?!ert)|wgrad|dgrad|winograd|fprop|s\d+816|marlin|machete|fused_moe|\bdot_kernel",
    "copy": r"copy|memcpy|memset|cat(array|_)|concat|transpose|permute|nchw|nhwc|reshape_and_cache"
    r"|chunk_cat|\broll_|triton_poi_fused_(cat|clone|split|view)\b",
    "reduction": r"reduc|softmax|argm(ax|in)|topk|nll_loss|cross_entropy|scan|cumsum"
    r"|triton_(red|per)|\bdot|norm_kernel|sum_functor",
    "elementwise": r"elementwise|pointwise|triton_poi|functor|dropout|gelu|silu|relu|act_and_mul"
    r"|rotary|rope|(?<!pre)fill|distribution_|tril|triu|fusion|unrolled|\bindex|gather|scatter",
}
_FOURIER = re.compile(r"\bDSE::\w+_fft|\bfft2d_[rc]2[rc]_|pointwise_mult_and_sum_complex")
"""cuDNN's convolutions by Fourier transforms, which it may choose in fp32. cuFFT's own transforms
are in no such namespace."""
_CLASSES = tuple((name, re.compile(text, re.IGNORECASE)) for name, text in _PATTERNS.items())
KERNEL_CLASSES = (
    *("GEMM", "attention", "norm", "elementwise", "reduction", "optimizer", "embedding"),
    *(COMMUNICATION_CLASS, "copy", OTHER_CLASS),
)


@functools.lru_cache(maxsize=1024)  # a diagnosis asks seven times for each name: a tenth of it
def classify_kernel(name: str) -> str:
    """The class (of KERNEL_CLASSES) of a demangled name; convolutions count as GEMM.

    `void at::native::elementwise_kernel<128, 2, …direct_copy_kernel_cuda…>(int, T3)` is "copy".
    Only the name is known, so a name without such words is "other".
    """
    if comm_kernel(name):
        return COMMUNICATION_CLASS
    if _FOURIER.search(name):
        return "GEMM"
    function, arguments = split_name(name)
    text = " ".join((function or name, *telling_words(arguments)))
    return next((kind for kind, pattern in _CLASSES if pattern.search(text)), OTHER_CLASS)
