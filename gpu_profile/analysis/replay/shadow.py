"""The program without the profiler: host delays, scaled until the replay gives the step of a run,
or of steps, that were not recorded.

nsys and the marks make the host slower, call by call, and the GPU hardly at all. On an H100 (nsys
2025.3.1, marks of steps) one factor of 0.50 to 0.79 explains the step of each of 13 programs that
the host limits, and what their fixes gain is then predicted for these programs, not for the
recorded ones. A price of each call explains them worse: it would be 4 us in one and 40 in another.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.replay.changes import find_edges
from gpu_profile.analysis.replay.driver_work import Scale, scale_allocations, scale_staged_copies
from gpu_profile.analysis.replay.edits.calls import remove_pauses
from gpu_profile.analysis.replay.edits.host_work import measure_own_pauses
from gpu_profile.analysis.replay.nsys_prices import drop_callbacks, find_node_prices
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.weights import Weights

LEAST_FACTOR = 0.2
"""Less of the recorded host time is not the profiler's doing: the two programs differ."""
ALIKE = 0.02
"""Steps that differ by less are equal: a step differs by as much from run to run."""
NEAR = 1.1
"""How many times the control a step without pauses may take that is still told as the control's."""
MOST_PRICE_NS, TYPICAL_PRICE_NS = 20_000, 8_000
"""nsys takes a few us of a call, however long it is: a cudaMalloc of 140 us is slow by itself. A
factor of 0 takes the first one. TYPICAL_FACTOR takes 2.8 us of the second one: in seven programs
of CUDA C++ and CuPy without pauses the control asks for -0.5 to 3.7 us a call, cudaMalloc or not.
"""
TYPICAL_FACTOR, FACTORS = 0.65, (0.50, 0.92)
"""The middle of those factors, and what four in five of 40 later programs ask for.

The middle is for a recording without a control, and for a host that its GPU hides. There the
control says nothing of the profiler's price, which counts as soon as a change makes the GPU faster.
It gives the steps of those 13 programs within 16 %, and of 29 of the 40. Neither how long calls
that launch take nor the host's work between them tells the factor (correlations -0.29 and -0.05).
"""
CALIBRATED = "NVIDIA Nsight Systems"
"""The profiler that the factors are of."""
HIDDEN = 0.005
"""A step that gets shorter by less with TYPICAL_FACTOR is not the host's."""
MOST_LONGER, LEAST_PAUSES = 4.0, 0.25
"""How many times as long the pauses of a control may be, and the least part of the step in them."""
MOST_SLOWER = 1.5
"""How many times as slow a host may be in the control: blocks of one program differed by as much on
a shared host."""
ROUNDS, PAUSE_ROUNDS = 8, 10
"""Of bisection: the factor is then within 0.3 % of the host's time, and of its pauses."""


@dataclass(frozen=True, eq=False)
class Shadow:
    """`factor`: of the recorded host delays, what is left without the profiler. `step_ms`: the step
    of the unchanged replay with that factor. `weights` are those of that replay. `is_measured`: the
    control tells the factor; else it is TYPICAL_FACTOR. `pause_factor`: how many times as long the
    host's pauses are in the control. `callback_ms`: how much longer the control's step is, for nsys
    was still in the process.
    """

    factor: float
    step_ms: float
    weights: Weights
    is_measured: bool = True
    pause_factor: float = 1.0
    callback_ms: float = 0.0


@once_each
def find_shadow(replay: Replay, control_ms: float, callback_ns: int = 0) -> Shadow | None:
    """What the profiler added, by the control, or without one (0) by its usual price; None where
    another profiler recorded. `callback_ns`: what it still takes of each call in the control.
    """
    if control_ms:
        shadow = subtract_profiler(replay, control_ms)
        return _drop_callbacks(replay, shadow, callback_ns) if shadow.is_measured else shadow
    return _take_typical(replay) if _is_calibrated(replay) else None


def _drop_callbacks(replay: Replay, shadow: Shadow, callback_ns: int) -> Shadow:
    weights = drop_callbacks(replay.graph, shadow.weights, callback_ns)
    step_ms = replay.predict_step(weights)
    return replace(shadow, step_ms=step_ms, weights=weights, callback_ms=shadow.step_ms - step_ms)


def _is_calibrated(replay: Replay) -> bool:
    return all(rank.profiler == CALIBRATED for rank in replay.graph.ranks)


def _take_typical(replay: Replay) -> Shadow:
    graph = replay.graph
    typical = scale_host(graph, Weights.of(graph), TYPICAL_FACTOR, TYPICAL_PRICE_NS)
    return Shadow(TYPICAL_FACTOR, replay.predict_step(typical), typical, is_measured=False)


def subtract_profiler(replay: Replay, control_ms: float) -> Shadow:
    """Scale the host's delays so that the unchanged replay gives a step of `control_ms`.

    The factor is the largest that does. Less than the least of FACTORS is not the profiler's doing:
    then the host takes that part, and the rest is its pauses, which were longer when it was
    recorded. Where a step has few pauses, and in reports of other profilers, the factor is any from
    LEAST_FACTOR to 1. Where no factor reaches the control, it is TYPICAL_FACTOR, and the rest is
    calls that allocate, pauses that were longer or in the recorded steps alone, or copies that the
    driver stages. A longer control has longer pauses, allocations or copies, or a slower host.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    least_ms = replay.predict_step(scale_host(graph, weights, LEAST_FACTOR))
    if least_ms > (1 + ALIKE) * control_ms:
        shadow = _scale_driver_to(replay, scale_allocations, TYPICAL_FACTOR, control_ms)
        shadow = shadow or _scale_pauses_to(replay, TYPICAL_FACTOR, control_ms)
        shadow = shadow or _leave_pauses(replay, control_ms, least_ms)
        shadow = shadow or _scale_copies_to(replay, control_ms)
        if shadow:
            return shadow
    host = _scale_host_to(replay, control_ms, least_ms)
    least = min(FACTORS) if _is_calibrated(replay) else LEAST_FACTOR
    is_longer = replay.step_ms < (1 - ALIKE) * control_ms
    if host.factor >= least and not is_longer:
        return host
    nearest = max(least, host.factor)
    shadow = _scale_pauses_to(replay, nearest, control_ms)
    if not shadow and is_longer:
        shadow = _scale_driver_to(replay, scale_allocations, nearest, control_ms)
        shadow = shadow or _scale_driver_to(replay, scale_staged_copies, nearest, control_ms)
        shadow = shadow or _slow_host_to(replay, control_ms)
    return shadow or host


def _scale_host_to(replay: Replay, control_ms: float, least_ms: float) -> Shadow:
    """Scale the host without its pauses; `least_ms`: the step with LEAST_FACTOR.

    The factor is 1 where the recorded step is as short as the control, and where the GPU alone
    makes it longer. Where no factor changes the step, it is TYPICAL_FACTOR.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    target = (1 + ALIKE) * max(control_ms, least_ms)
    if replay.step_ms <= target:
        typical = _take_typical(replay)
        is_hidden = typical.step_ms >= (1 - HIDDEN) * replay.step_ms
        return typical if is_hidden else Shadow(1.0, replay.step_ms, weights)
    target = max(control_ms, target - ALIKE * control_ms)
    return _find_factor(replay, lambda factor: scale_host(graph, weights, factor), target)


def _slow_host_to(replay: Replay, control_ms: float) -> Shadow | None:
    """Slow the host until the step is the control: a machine that others use is slower at times.
    None where the GPU hides half of that: then it is the slower one.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    most = min(MOST_SLOWER, 1 + 2 * (control_ms / replay.step_ms - 1))
    shadow = _find_factor(
        replay, lambda factor: scale_host(graph, weights, factor), control_ms, 1.0, most
    )
    return shadow if shadow.step_ms >= (1 - ALIKE) * control_ms else None


def _find_factor(
    replay: Replay,
    scale: Callable[[float], Weights],
    target_ms: float,
    low: float = LEAST_FACTOR,
    high: float = 1.0,
) -> Shadow:
    """The largest factor from `low` to `high` whose step is at most `target_ms`."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if replay.predict_step(scale(middle)) > target_ms:
            high = middle
        else:
            low = middle
    return Shadow(low, replay.predict_step(scale(low)), scale(low))


def _scale_pauses_to(replay: Replay, factor: float, control_ms: float) -> Shadow | None:
    """Scale the host by `factor`, and its pauses until the step is the control: nothing else can
    make it as long, or as short. None where the step has few pauses, or they do not reach it.

    What a program does in a pause may grow while it runs: texts, files, garbage; and in a few
    recorded steps a busy machine can make a pause longer than it mostly is.
    """
    graph = replay.graph
    weights = scale_host(graph, Weights.of(graph), factor)
    step_ms = replay.predict_step(weights)
    if not _has_pauses(replay, weights, step_ms):
        return None
    low, high = (LEAST_FACTOR, 1.0) if step_ms > control_ms else (1.0, MOST_LONGER)
    for _ in range(PAUSE_ROUNDS):
        middle = (low + high) / 2
        if replay.predict_step(lengthen_pauses(graph, weights, middle)) > control_ms:
            high = middle
        else:
            low = middle
    longer = lengthen_pauses(graph, weights, high)
    step_ms = replay.predict_step(longer)
    if abs(step_ms / control_ms - 1) > ALIKE:
        return None
    return Shadow(factor, step_ms, longer, pause_factor=high)


def _has_pauses(replay: Replay, weights: Weights, step_ms: float) -> bool:
    """Whether the pauses are LEAST_PAUSES of this step."""
    without_ms = replay.predict_step(remove_pauses()(replay.graph, weights))
    return step_ms - without_ms >= LEAST_PAUSES * step_ms


def _leave_pauses(replay: Replay, control_ms: float, least_ms: float) -> Shadow | None:
    """The program without its pauses, where a faster host takes the control's time only so (within
    NEAR); else None, and where the step has few. `least_ms`: what the fastest host takes with them.

    Such pauses were in the recorded steps alone: a first use of each shape, a buffer of nsys. Where
    the control is longer than a step without any, a part of them is left.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    if not _has_pauses(replay, scale_host(graph, weights, LEAST_FACTOR), least_ms):
        return None

    def scale(factor: float) -> Weights:
        host = min(factor, TYPICAL_FACTOR)
        return lengthen_pauses(graph, scale_host(graph, weights, host), 0.0)

    without_ms = replay.predict_step(scale(LEAST_FACTOR))
    if without_ms > min(NEAR * control_ms, (1 - ALIKE) * least_ms):
        return None
    shadow = _find_factor(replay, scale, (1 + ALIKE) * max(control_ms, without_ms))
    if shadow.step_ms < (1 - ALIKE) * control_ms:
        host = scale_host(graph, weights, TYPICAL_FACTOR)
        part = _find_factor(
            replay, lambda part: lengthen_pauses(graph, host, part), control_ms, 0.0, LEAST_FACTOR
        )
        return replace(part, factor=TYPICAL_FACTOR, pause_factor=part.factor)
    return replace(shadow, factor=min(shadow.factor, TYPICAL_FACTOR), pause_factor=0.0)


def lengthen_pauses(graph: RunGraph, weights: Weights, factor: float) -> Weights:
    """Multiply the host's pauses by `factor`."""
    more = np.rint((factor - 1) * measure_own_pauses(graph, weights)).astype(np.int64)
    starts = graph.nodes.call_start
    longer = weights.with_delay(starts, weights.delay[starts] + more)
    return replace(longer, silent=weights.silent + more)


def _scale_copies_to(replay: Replay, control_ms: float) -> Shadow | None:
    """Scale the copies that the driver stages, where a step without pauses is not NEAR the control.

    Of less, the gaps between kernels are a part: nsys adds 0.3 to 1.1 us before each (H200).
    """
    graph = replay.graph
    host = scale_host(graph, Weights.of(graph), TYPICAL_FACTOR)
    if replay.predict_step(remove_pauses()(graph, host)) <= NEAR * control_ms:
        return None
    return _scale_driver_to(replay, scale_staged_copies, TYPICAL_FACTOR, control_ms)


def _scale_driver_to(
    replay: Replay, scale: Scale, factor: float, control_ms: float
) -> Shadow | None:
    """Scale the host by `factor`, and work of the driver by `scale` until the step is the control;
    None where that does not reach it.
    """
    graph = replay.graph
    host = scale_host(graph, Weights.of(graph), factor)
    is_shorter = replay.predict_step(host) > control_ms
    low, high = (LEAST_FACTOR, 1.0) if is_shorter else (1.0, MOST_LONGER)
    shadow = _find_factor(replay, lambda part: scale(graph, host, part), control_ms, low, high)
    reaches = abs(shadow.step_ms / control_ms - 1) <= ALIKE
    return replace(shadow, factor=factor) if reaches and shadow.factor > LEAST_FACTOR else None


def scale_host(
    graph: RunGraph, weights: Weights, factor: float, most_price_ns: int = MOST_PRICE_NS
) -> Weights:
    """Multiply the host's own time by `factor`: that in calls, of each `most_price_ns` at most, and
    between calls without pauses.

    Pauses are work that the profiler does not see, such as loading data, so it does not slow them.
    """
    calls, nodes = graph.calls, graph.nodes
    moves = graph.has_source
    delay = weights.delay.copy()
    begins = moves[nodes.call_start]
    starts, silent = nodes.call_start[begins], weights.silent[begins]
    work = np.maximum(delay[starts] - silent, 0)
    delay[starts] -= work - np.rint(factor * work).astype(np.int64)
    ends = nodes.call_end[~calls.waits & moves[nodes.call_end]]
    delay[ends] = np.rint(factor * delay[ends]).astype(np.int64)
    edges = find_edges(graph, nodes.call_end, Edge.CALL)
    recorded = weights.lag[edges]
    price = np.minimum(recorded, most_price_ns)
    of_nodes = np.zeros(len(graph.time), np.int64)
    of_nodes[nodes.call_end] = find_node_prices(graph)
    # A program without the profiler pays none of it, whatever else its host does faster.
    part = min(1.0, (1 - factor) / (1 - TYPICAL_FACTOR))
    extra = np.minimum(part * of_nodes[graph.edges.target[edges]], recorded - price)
    lag = recorded - np.rint((1 - factor) * price + np.maximum(extra, 0)).astype(np.int64)
    return weights.with_delay(np.arange(len(delay)), delay).with_lag(edges, lag)
