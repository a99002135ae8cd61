"""Find training steps without NVTX ranges, by the repetition of a rank's launches."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COPY,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    NO_CALL,
    SET,
    SYNC_NAME,
    Activity,
)
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.activity.load.operations import GRAPH_NAME
from gpu_profile.analysis.arrays.columns import encode_column, is_among, list_distinct
from gpu_profile.analysis.arrays.ends import Ends
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.anchors import comes_regularly
from gpu_profile.analysis.step_search.boundaries import Repetition
from gpu_profile.analysis.step_search.launches import Launches
from gpu_profile.analysis.step_search.search import find_repetition
from gpu_profile.analysis.step_search.tokens import find_by_tokens
from gpu_profile.analysis.tables.kernel_class import classify_kernel

# Names of kernels that only an optimizer launches: those with the name of an optimizer ("adam"),
# and the multi-tensor kernels of PyTorch and apex except copies, zeroing and scaling, which other
# code uses too.
OPTIMIZER = re.compile(
    r"multi_tensor_apply_kernel(?!.*(Copy|Zero|Scale))"
    r"|(?i:adam|sgd|adagrad|rmsprop|lamb(?!da)|lion(?!g)|optimi[sz]er|momentum)"
)
# With foreach=False, PyTorch's optimizers call addcdiv for each parameter. Only the last of a step
# counts, else each parameter would be a step: the next one is 4 times as far as usual, or further.
OF_PARAMETER, FURTHER = re.compile(r"addcdiv_cuda"), 4
# A loop's body begins some host work before its first launch: 0.1 to 2 % of a step in plain loops,
# 5 % in Lightning and in steps below 1 ms. Half of the pause, up to 2.5 % of a step, is the guess.
LEAD = 0.025
EQUAL = 0.99
"""Where so many steps launch the same number of operations, nothing comes between some of them."""
BACKWARD = re.compile(r"bwd|backward|[wd]grad", re.IGNORECASE)
# XLA's "loop_add_fusion_6" and "wrapped_subtract" may be of a backward pass or an optimizer.
OF_XLA = re.compile(r"(\w+_)?fusion(_dot\w*|_\d+)?$|wrapped_\w+$|(void )?(stream_executor|xla)::")
OF_AUTOTUNER = re.compile(r"(?i)redzone|delay_?kernel|xla_\w+_comparison|repeat_?buffer_?kernel")
"""Kernels that XLA launches beside those that it tries."""
PRODUCTS = ("GEMM", "attention")
"""The classes of kernels that multiply matrices."""
STARTED = 0.4
"""The part of the CUDA graphs that a start-up or a warm-up launches at most."""
GRAPH_CALL = re.compile(r"cu(da)?GraphLaunch")


@dataclass(frozen=True, eq=False)
class RepeatedSteps:
    """Steps that were found by repetition: `start` and `end` on the host (ns), `source` says how
    they were found, and `confidence` is 0 to 1. `pauses`: when evaluations between steps begin.
    `by_copies`: each ends with a copy to the host, as an engine's iterations do.
    """

    source: str
    start: IntArray
    end: IntArray
    confidence: float
    pauses: IntArray
    by_copies: bool = False


def repeated_steps(activity: Activity) -> RepeatedSteps | str:
    """The steps by repetition, or a text that says why there are none."""
    rows = _order_by_launch(activity)
    launches = launches_of(activity, rows)
    repetition = find_repetition(launches)
    if not _may_train(activity):
        repetition = find_by_tokens(launches, repetition) or repetition
    if isinstance(repetition, str):
        return repetition
    start = _find_body_starts(activity, rows, launches, repetition.first)
    end = np.r_[start[1:] - 1, launches.call_ends[repetition.end - 1]]
    source, pauses = _name_source(launches, repetition), launches.call_starts[repetition.pauses]
    return RepeatedSteps(source, start, end, repetition.alike_part, pauses, repetition.by_copies)


def _name_source(launches: Launches, repetition: Repetition) -> str:
    """How the steps were found. Nothing tells a step of a program from equal parts of it."""
    if repetition.by_copies:
        return f"copies to the host after {repetition.size} launches each"
    source = f"repetition of {repetition.size} launches"
    same = np.diff(repetition.first) == repetition.size
    is_sure = launches.optimizer.any() or np.mean(same) < EQUAL
    return source if is_sure else f"{source}, which a step of the program may hold several times"


def _may_train(activity: Activity) -> bool:
    """Whether a kernel's name says that it is of a backward pass, or may be: XLA's names tell
    neither that nor an optimizer.
    """
    names = (activity.names[code] for code in list_distinct(activity.ops.full_name))
    return any(BACKWARD.search(name) or OF_XLA.match(name) for name in names)


def _find_body_starts(
    activity: Activity, rows: IntArray, launches: Launches, first: IntArray
) -> IntArray:
    """When the host began each step: in its last long pause before the step's first launch."""
    call_starts = launches.call_starts[first]
    since = np.r_[call_starts[:1], launches.call_ends][first]
    most = int(LEAD * float(np.median(np.diff(call_starts))))
    threads, calls = activity.launcher_of(rows[first]), activity.calls
    waits = calls.match_names(activity.names, SYNC_NAME)
    # What is right where no call is in between; a loop over 40,000 steps takes seconds.
    begins: IntArray = call_starts - np.minimum(np.maximum(call_starts - since, 0) // 2, most)
    for thread in list_distinct(threads):
        mine = np.flatnonzero(threads == thread)
        of_thread = np.flatnonzero(calls.thread == calls.number_of(thread))
        lows, highs = (
            np.searchsorted(calls.start[of_thread], time[mine]) for time in (since, call_starts)
        )
        has_calls = highs > lows
        edges = (array[has_calls].tolist() for array in (mine, lows, highs))
        for step, low, high in zip(*edges, strict=True):
            between = of_thread[low:high]
            waited = np.flatnonzero(waits[between])
            between = between[waited[-1] :] if len(waited) else between
            opens = calls.end[between] if len(waited) else np.r_[since[step], calls.end[between]]
            closes = np.r_[calls.start[between], call_starts[step]][-len(opens) :]
            begins[step] = _find_middle_of_pause(opens, closes, most)
    return begins


def _find_middle_of_pause(opens: IntArray, closes: IntArray, most: int) -> int:
    """The middle of the last pause that is at least half as long as the longest; at most `most`
    before its end.
    """
    free = np.maximum(closes - opens, 0)
    last = int(np.flatnonzero(2 * free >= free.max())[-1])
    return int(closes[last]) - min(int(free[last]) // 2, most)


def _order_by_launch(activity: Activity) -> IntArray:
    """The rows of the operations except memsets, by launch time."""
    rows = np.flatnonzero(activity.ops.kind != SET)
    return rows[np.argsort(activity.launch_starts[rows], kind="stable")]


def launches_of(activity: Activity, rows: IntArray) -> Launches:
    """The columns of these operations that the search for repetition needs."""
    ops, calls = activity.ops, activity.calls
    call = ops.call[rows]
    token, texts, via = _number_tokens(activity, rows)
    plain = [
        (_strip_name(text), bool(GRAPH_CALL.match(by))) for text, by in zip(texts, via, strict=True)
    ]
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(plain))}
    to_host = (ops.kind[rows] == COPY) & (ops.copy_kind[rows] == COPY_TO_HOST)
    call_ends = np.where(call == NO_CALL, ops.end[rows], _cells(calls.end, call))
    call_starts = activity.launch_starts[rows]
    return Launches(
        token=token,
        kind=np.array([kinds[kind] for kind in plain], np.int64)[token],
        call_starts=call_starts,
        call_ends=call_ends,
        pause=_measure_pauses(activity, call_starts, call_ends),
        gpu=np.where(ops.kind[rows] == COMMUNICATION, 0, ops.duration[rows]),
        graph=_match_texts(texts, re.compile(re.escape(GRAPH_NAME)))[token],
        communication=ops.kind[rows] == COMMUNICATION,
        to_device=(ops.kind[rows] == COPY) & (ops.copy_kind[rows] == COPY_TO_DEVICE),
        to_host=to_host,
        values=to_host & (ops.bytes[rows] < STAGED_BYTES),
        optimizer=_match_texts(texts, OPTIMIZER)[token]
        | _mark_run_ends(_match_texts(texts, OF_PARAMETER)[token]),
        multiplies=np.array([classify_kernel(text) in PRODUCTS for text in texts], bool)[token],
        tests=_match_texts(texts, OF_AUTOTUNER)[token],
    )


def _mark_run_ends(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The flags that are followed by a longer stretch without one than usual."""
    place = np.flatnonzero(flags)
    ends = np.zeros(len(flags), bool)
    if len(place) > 1:
        free = np.diff(place)
        ends[place[np.r_[free >= FURTHER * np.median(free), True]]] = True
    return ends


def _measure_pauses(activity: Activity, call_starts: IntArray, call_ends: IntArray) -> IntArray:
    """How long the host worked before each launch (ns), without the synchronisations in between.

    A batch copied from pageable memory is followed by cudaStreamSynchronize, which waits for all
    that the GPU still has to do, such as an all-reduce with a late rank.
    """
    calls = activity.calls
    waits = np.flatnonzero(calls.match_names(activity.names, SYNC_NAME))
    waited = np.r_[0, np.cumsum(calls.end[waits] - calls.start[waits])]
    since = np.r_[call_starts[:1], call_ends[:-1]]
    first, last = (np.searchsorted(calls.start[waits], time) for time in (since, call_starts))
    return np.asarray(np.maximum(call_starts - since - (waited[last] - waited[first]), 0), np.int64)


def _number_tokens(activity: Activity, rows: IntArray) -> tuple[IntArray, list[str], list[str]]:
    """A number for each operation, and for each number the full kernel name and the name of the
    API call.

    Kernels of one name get different numbers if they are launched by different calls: a kernel in
    a CUDA graph is another launch than the same kernel by cudaLaunchKernel. So do graphs that come
    every n-th time.
    """
    ops, calls = activity.ops, activity.calls
    call = ops.call[rows]
    name, names = encode_column(ops.full_name[rows])
    by = np.where(call == NO_CALL, NO_CALL, _cells(calls.name, call))
    via, callers = encode_column(by)
    graph, graphs = encode_column(_tell_graphs(activity, rows))
    token, pairs = encode_column((name * len(callers) + via) * len(graphs) + graph)
    pairs = pairs // len(graphs)
    texts = [activity.names[int(names[pair // len(callers)])] for pair in pairs]
    return (
        token,
        texts,
        [activity.names.get(int(callers[pair % len(callers)]), "") for pair in pairs],
    )


def _tell_graphs(activity: Activity, rows: IntArray) -> IntArray:
    """For each operation 0, but a number of its class for a CUDA graph that comes every n-th time,
    or early only.

    Graphs in no order, as for batches of each size, are steps of one kind.
    """
    is_graph = is_among(
        activity.ops.full_name[rows],
        [code for code, name in activity.names.items() if name == GRAPH_NAME],
    )
    told, graphs = np.zeros(len(rows), np.int64), np.flatnonzero(is_graph)
    classes = activity.ops.grid[rows[graphs]]
    late = np.arange(len(graphs)) >= STARTED * len(graphs)
    usual = int(np.argmax(np.bincount(classes))) if len(graphs) else 0
    for number in list_distinct(classes):
        place = np.flatnonzero((classes == number) & late)
        if number != usual and (comes_regularly(place) or not len(place)):
            told[graphs[classes == number]] = number + 1
    return told


def _strip_name(text: str) -> str:
    """The name without template arguments and digits, e.g. "gemm_x" for "gemm_128x64<float>"."""
    return re.sub(r"\d+", "", text.partition("<")[0])


def _match_texts(texts: list[str], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([bool(pattern.search(text)) for text in texts], bool)


def _cells(column: IntArray | Ends, rows: IntArray) -> IntArray:
    return column[rows] if len(column) else rows


def find_middle_of_pauses(leader: Activity, begin: IntArray) -> IntArray:
    """The middle of the host's pause before each step of the leader.

    A process that launches for each GPU from a thread of its own (JAX) launches a step's first
    kernel some microseconds earlier on one GPU than on the other. The pause between steps is
    milliseconds long.
    """
    launched = np.sort(leader.launch_starts[:])
    row = np.searchsorted(launched, begin)
    before = launched[np.maximum(row - 1, 0)]
    return np.where(row > 0, (before + begin) // 2, begin)
