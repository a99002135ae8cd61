"""The kinds of iterations without marks, as far as names of attention kernels prove them."""

import re

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.serving.marks import DECODE, MIXED, PREFILL, UNKNOWN
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import Flags, IntArray

# Kernels that serve one of both only: FlashInfer's, vLLM's paged attention, TensorRT-LLM's. A name
# such as flash_fwd_splitkv proves nothing: FlashAttention 2 reads prompts from pages with it, too.
_DECODES = re.compile(
    r"Batch_?Decode|paged_attention_v[12]|(masked|mmha)_?multi_?(head|query)|\bmmha_",
    re.IGNORECASE,
)
_PREFILLS = re.compile(r"Batch_?Prefill|context_?attention|context_fmha", re.IGNORECASE)


def find_kinds(activity: Activity, start: IntArray, end: IntArray) -> IntArray | None:
    """The kind of the iteration in each of these times on the GPU; None without any proof."""
    decodes, prefills = (_touches(activity, name, start, end) for name in (_DECODES, _PREFILLS))
    if not decodes.any():
        return None
    kind = np.full(len(start), UNKNOWN, np.int64)
    kind[decodes], kind[prefills] = DECODE, PREFILL
    kind[decodes & prefills] = MIXED
    return kind


def _touches(activity: Activity, names: re.Pattern[str], start: IntArray, end: IntArray) -> Flags:
    """A mask of the times in which a kernel with such a name starts."""
    ops = activity.ops
    codes = [code for code in list_distinct(ops.full_name) if names.search(activity.names[code])]
    begins = ops.start[is_among(ops.full_name, codes) & (ops.kind == COMPUTE)]
    return np.asarray(np.searchsorted(begins, end) > np.searchsorted(begins, start), np.bool_)
