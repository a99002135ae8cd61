"""The iterations that vLLM, SGLang and TensorRT-LLM mark, with their kinds and batches."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges
from gpu_profile.analysis.activity.steps.step_ranges import FEWEST_STEPS
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import Flags, IntArray

DECODE, PREFILL, MIXED, UNKNOWN = range(4)
KINDS = ("decode", "prefill", "mixed", "kind unknown")
NOT_TOLD = -1
"""The batch or the tokens of an iteration whose mark does not say them."""

# "execute_context_1(512)_generation_63(63)": requests and tokens of prompts, and of decoding. vLLM
# 0.11 to 0.15 with its profiler "cuda":
# https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/gpu_worker.py
_VLLM = re.compile(r"(?:^|:)execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)$")
# "step[DECODE bs=64]", "step[EXTEND bs=4 toks=512]": SGLang 0.5, _build_step_span_name:
# https://github.com/sgl-project/sglang/tree/main/python/sglang/srt/model_executor
_SGLANG = re.compile(r"(?:^|:)step\[(\w+) bs=(\d+)(?: toks=(\d+))?[^\]]*\]$")
# "[Executor] _forward_step 7: 1 ctx reqs, 512 ctx tokens, 63 gen reqs" of TensorRT-LLM 1.x. Older
# ones have no tokens, and 0.19 has no number.
# https://github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/_torch/pyexecutor/py_executor.py
_TENSORRT = re.compile(
    r"(?:^|:)\[Executor\] _forward_step(?: \d+)?: (\d+) ctx reqs, (?:(\d+) ctx tokens, )?"
    r"(\d+) gen reqs$"
)
_SGLANG_KINDS = {
    "DECODE": DECODE,
    "TARGET_VERIFY": DECODE,
    "EXTEND": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "MIXED": MIXED,
}
_VERIFY = "[TARGET_VERIFY "
_OF_DRAFT = re.compile(r"\[(DECODE|DRAFT_\w+) ")
"""Where SGLang verifies drafted tokens, these marks are of the model that drafts them."""


@dataclass(frozen=True)
class Mark:
    """What a mark says: `kind` of KINDS, the requests in the `batch`, and the tokens of `prompts`;
    NOT_TOLD where it does not say them.
    """

    engine: str
    kind: int
    batch: int
    prompts: int


@dataclass(frozen=True, eq=False)
class Iterations:
    """Iterations of an engine, on the host, in arrays of one length (see Mark).

    `source` says how they were found, e.g. "marks of vLLM".
    """

    source: str
    start: IntArray
    end: IntArray
    kind: IntArray
    batch: IntArray
    prompts: IntArray

    def pick(self, rows: IntArray) -> "Iterations":
        columns = (self.start, self.end, self.kind, self.batch, self.prompts)
        return Iterations(self.source, *(column[rows] for column in columns))


def read_mark(name: str) -> Mark | None:
    """What an engine's mark says; None for the name of another range."""
    if match := _VLLM.search(name):
        contexts, prompts, generations, _ = map(int, match.groups())
        kind = _find_kind(contexts, generations)
        return Mark("vLLM", kind, contexts + generations, prompts)
    if match := _TENSORRT.search(name):
        contexts, generations = int(match[1]), int(match[3])
        kind = _find_kind(contexts, generations)
        prompts = int(match[2]) if match[2] else NOT_TOLD if contexts else 0
        return Mark("TensorRT-LLM", kind, contexts + generations, prompts)
    if match := _SGLANG.search(name):
        kind = _SGLANG_KINDS.get(match[1], UNKNOWN)
        prompts = int(match[3]) if match[3] else 0 if kind == DECODE else NOT_TOLD
        return Mark("SGLang", kind, int(match[2]), prompts)
    return None


def _find_kind(contexts: int, generations: int) -> int:
    """The kind of an iteration with so many prompts and so many requests that decode. An engine
    whose neighbours work runs an iteration without requests: its kind is unknown.
    """
    if contexts:
        return MIXED if generations else PREFILL
    return DECODE if generations else UNKNOWN


def find_marked_iterations(ranges: Ranges) -> Iterations | None:
    """The iterations that an engine marks; None without three of them.

    Of several threads with marks, such as two engines in one process, the one with most of them.
    """
    marks = {code: mark for code, name in enumerate(ranges.names) if (mark := read_mark(name))}
    closed = is_among(ranges.name, list(_leave_drafts(ranges.names, marks)))
    rows = np.flatnonzero(closed & (ranges.end != FOREVER))
    rows = rows[_find_outermost(ranges, rows)]
    thread = ranges.thread[rows]
    by_thread = (rows[thread == number] for number in list_distinct(thread))
    rows = max(by_thread, key=len, default=rows)
    if any(_VERIFY in ranges.names[code] for code in marks):
        rows = rows[_find_targets(ranges.name[rows], marks)]
    if len(rows) < FEWEST_STEPS:
        return None
    marks_by_row = [marks[code] for code in ranges.name[rows].tolist()]
    engines = " and ".join(sorted({mark.engine for mark in marks_by_row}))
    columns = zip(*((mark.kind, mark.batch, mark.prompts) for mark in marks_by_row), strict=True)
    kind, batch, prompts = (np.array(column, np.int64) for column in columns)
    start, end = ranges.start[rows], ranges.end[rows]
    return Iterations(f"marks of {engines}", start, end, kind, batch, prompts)


def _leave_drafts(names: tuple[str, ...], marks: dict[int, Mark]) -> Iterator[int]:
    """The codes of the marks without those of a model that drafts tokens for another one."""
    verifies = any(_VERIFY in names[code] for code in marks)
    for code in marks:
        if not (verifies and _OF_DRAFT.search(names[code])):
            yield code


def _find_targets(name: IntArray, marks: dict[int, Mark]) -> Flags:
    """A mask of these marks in order without those of a draft model that reads the same prompts: of
    equal ones in a row each second one.
    """
    prefills = [code for code, mark in marks.items() if mark.kind == PREFILL]
    goes_on = is_among(name, prefills) & np.r_[False, name[1:] == name[:-1]][: len(name)]
    place = np.arange(len(name))
    begin = np.maximum.accumulate(np.where(goes_on, 0, place)) if len(name) else place
    return np.asarray((place - begin) % 2 == 0, np.bool_)


def _find_outermost(ranges: Ranges, rows: IntArray) -> Flags:
    """A mask of these ranges that lie in no other one of them on their thread."""
    outermost, reach = np.ones(len(rows), bool), dict[int, int]()
    spans = (column[rows].tolist() for column in (ranges.start, ranges.end, ranges.thread))
    for place, (start, end, thread) in enumerate(zip(*spans, strict=True)):
        outermost[place] = start >= reach.get(thread, start)
        reach[thread] = max(end, reach.get(thread, end))
    return outermost
