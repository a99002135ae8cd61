"""Classify communication kernels by name: their family (NCCL, DeepEP …) and kind.

All analyses use this one table, so that a kernel is never communication in one table and compute
in another. Names are those that nsys prints, shortened or not: "ncclDevKernel_SendRecv", "void
<unnamed>::two_shot_all_reduce_kernel_inplace<...>(...)", "deep_ep::intranode::dispatch".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
ALL_TO_ALL, BROADCAST, REDUCE = "all_to_all", "broadcast", "reduce"
SEND_RECV, BARRIER, OTHER = "send_recv", "barrier", "other"
KINDS = (
    *(ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL),
    *(BROADCAST, REDUCE, SEND_RECV, BARRIER, OTHER),
)
"""Kinds of communication kernels; OTHER if the kind is unknown from the name."""
SYMMETRIC_KINDS = frozenset((ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER))
"""Kinds in which every rank waits for all others."""
TOGETHER_KINDS = frozenset((ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER))
"""Kinds that end on all ranks at the same time, because all parts have the same size."""

_COLLECTIVE = (
    r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|a2a|cross_device_reduce|barrier"
    r"|moe_?comm|lamport|multimem|(one|two|1|2)_?shot|userbuffers)"
)
_EXPERTS = (
    r"(\w*notify\w*|\w*dispatch(?!_layout)\w*|\w*combine\w*|barrier\w*|clean_low_latency\w*"
    r"|\w*all_?to_?all\w*)"
)
# (family, start of its kernels' names), without return type, arguments and anonymous namespaces.
# Source: the names in the projects' code.
_FAMILIES = tuple(
    (family, re.compile(pattern, re.IGNORECASE))
    for family, pattern in (
        # ncclKernel_ before 2.19, ncclDevKernel_ since, ncclSymDevKernel_ of 2.27 and
        # ncclSymkDevKernel_ since 2.28 for registered symmetric memory; RCCL has the same names.
        # https://github.com/NVIDIA/nccl/blob/master/src/device/symmetric/generate.py
        ("NCCL", r"nccl\w*Kernel"),
        ("MSCCL", r"mscclKernel|mscclpp::"),
        ("NVSHMEM", r"(\w+::)*nvshmem"),
        ("TransformerEngine", r"(\w+::)*k?userbuffers_"),
        ("DeepEP", rf"(deep_ep|hybrid_ep|uccl)::(?!layout::)(\w+::)*{_EXPERTS}"),
        ("pplx", rf"pplx::(\w+::)*(AllToAll|{_EXPERTS})|(\w+::)*a2a_(dispatch|combine)_"),
        ("TensorRT-LLM", rf"tensorrt_llm::(\w+::)*\w*{_COLLECTIVE}"),
        ("FlashInfer", rf"flashinfer::(\w+::)*\w*{_COLLECTIVE}"),
        ("vLLM", rf"(vllm|quickreduce)::(\w+::)*\w*{_COLLECTIVE}"),
        ("SGLang", rf"(sglang|sgl_\w+)::(\w+::)*\w*{_COLLECTIVE}"),
        ("XLA", r"(stream_executor|xla)::(\w+::)*\w*(All(Reduce|ToAll|Gather)|MultiGpuBarrier)"),
        ("torch", rf"c10d::(\w+::)*(\w*{_COLLECTIVE}|(put|wait)_signal)"),
        # torch's symmetric memory and the custom all-reduces of engines, in any namespace.
        (
            "symmetric memory",
            r"(\w+::)*(cross_device_reduce|multimem_\w*(reduce|gather|broadcast)"
            r"|(one|two)_?shot_?all_?reduce|lamport_style_one_shot_all_reduce)",
        ),
    )
)  # fmt: skip
# The order matters: the name of an all-reduce also contains "reduce".
_KIND_WORDS = (
    (ALL_REDUCE, r"allreduce|crossdevicereduce|sum(inplace)?gpu(rr|rw|mc)+$|mscclKernel"),
    (REDUCE_SCATTER, r"reducescatter|gpu(rr|rw|mc)*rs(oop)?"),
    (ALL_GATHER, r"allgather|fcollect|gpu(rr|rw|mc)*ag"),
    (ALL_TO_ALL, r"alltoall|a2a|dispatch|combine|moecomm"),
    (BROADCAST, r"broadcast|bcast"),
    (BARRIER, r"barrier|syncall|sync$|cleanlowlatency"),
    (SEND_RECV, r"send|recv|push|pull|put|get|signal"),
    (REDUCE, r"reduce|lamport"),
)
_KIND_PATTERNS = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _KIND_WORDS)

_ANONYMOUS = re.compile(
    r"(<unnamed>|\(anonymous namespace\)|\(anonymous\)|\{anonymous\}|`anonymous[- ]namespace'"
    r"|_GLOBAL__N_\w*|_INTERNAL_\w+)::"
)
_MANGLED = re.compile(r"_Z(N|L|K|St)*")
_LOOKS = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|(^|_)a2a_|dispatch(?!_layout)|multimem|symm_?mem"
    r"|lamport|nvls|send_?recv|(moe|expert|token|ep)_?\w*combine|combine\w*(moe|expert|token)",
    re.IGNORECASE,
)
# torch.compile names a kernel after the operations that it fused, e.g. the copies of collectives.
_COMPILED = re.compile(r"triton_(poi|red|per|tem|mm|for|spl)\w*_fused|triton_(poi|red|per|for)_")
_BARE = re.compile(
    rf"{_COLLECTIVE}|notify|dispatch|combine|clean_low_latency|signal", re.IGNORECASE
)


@dataclass(frozen=True)
class CommKernel:
    """A communication kernel: its `family`, e.g. "NCCL", and its `kind`, one of KINDS."""

    family: str
    kind: str

    @property
    def symmetric(self) -> bool:
        """Whether every rank waits for every other one in this kernel."""
        return self.kind in SYMMETRIC_KINDS


@cache
def comm_kernel(name: str) -> CommKernel | None:
    """The family and kind of a kernel; None for compute and for names that are not in the table."""
    function = function_name(name)
    for family, pattern in _FAMILIES:
        if pattern.match(function):
            return CommKernel(family, _find_kind(family, function))
    return None


def comm_kind(name: str) -> str:
    """The kind of a communication kernel; OTHER for any other name."""
    kernel = comm_kernel(name)
    return kernel.kind if kernel else OTHER


def _find_kind(family: str, function: str) -> str:
    """The kind, from the function's own name first: in trtllm_allreduce_fusion::moe_dispatch only
    the namespace says all-reduce.
    """
    for text in (function.rpartition("::")[2], function):
        squashed = text.replace("_", "").replace("::", "")
        for kind, pattern in _KIND_PATTERNS:
            if pattern.search(squashed):
                return kind
    return ALL_REDUCE if family == "MSCCL" else OTHER


@cache
def function_name(name: str) -> str:
    """A kernel's name without return type, template arguments, parameters and anonymous
    namespaces.

    "void a::<unnamed>::b<(int)4>(float *)" is "a::b"; the mangled "_ZN12_GLOBAL__N_11fEv" is "f".
    """
    if name.startswith("_Z"):
        return "::".join(part for part in _split_mangled(name) if "_GLOBAL__N_" not in part)
    head = re.split(r"[<(]", _ANONYMOUS.sub("", name), maxsplit=1)[0].split()
    return head[-1] if head else ""


def _split_mangled(name: str) -> Iterator[str]:
    """Yield the identifiers at the start of an Itanium-mangled name, each of which follows its
    length.
    """
    text = _MANGLED.sub("", name, count=1)
    while digits := re.match(r"\d+", text):
        end = digits.end() + int(digits[0])
        yield text[digits.end() : end]
        text = text[end:]


@cache
def needs_namespace(short_name: str) -> bool:
    """Whether a short name is communication only in some namespaces: DeepEP's kernels have the
    short names "dispatch" and "combine".
    """
    return comm_kernel(short_name) is None and bool(_BARE.search(short_name))


@cache
def looks_like_communication(name: str) -> bool:
    """Whether a kernel of no known family has a name like communication.

    It is counted as compute, and the reader gets a note.
    """
    function = function_name(name)
    if comm_kernel(name) or _COMPILED.match(function) or "attn" in function.lower():
        return False
    return bool(_LOOKS.search(function))
