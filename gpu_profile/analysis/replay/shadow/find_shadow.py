"""The program without the profiler: host delays, scaled until the replay gives the step of a run,
or of steps, that were not recorded.

nsys and the marks make the host slower, call by call, and the GPU hardly at all. On an H100 (nsys
2025.3.1, marks of steps) one factor of 0.50 to 0.79 explains the step of each of 13 programs that
the host limits, and what their fixes gain is then predicted for these programs, not for the
recorded ones. A price of each call explains them worse: it would be 4 us in one and 40 in another.
"""

from collections.abc import Callable
from dataclasses import replace

from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.replay.edits.calls import remove_pauses
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.driver_scale import (
    Scale,
    scale_allocations,
    scale_staged_copies,
)
from gpu_profile.analysis.replay.shadow.host_scale import (
    FACTORS,
    TYPICAL_FACTOR,
    lengthen_pauses,
    scale_host,
    subtract_typical_price,
)
from gpu_profile.analysis.replay.shadow.nsys_prices import drop_callbacks
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.weights import Weights

LEAST_FACTOR = 0.2
"""Less of the recorded host time is not the profiler's doing: the two programs differ."""
ALIKE = 0.02
"""Steps that differ by less are equal: a step differs by as much from run to run."""
NEAR = 1.1
"""How many times the control a step without pauses may take that is still told as the control's."""
CALIBRATED = "NVIDIA Nsight Systems"
"""The profiler that the factors are of."""
MOST_LONGER, LEAST_PAUSES = 4.0, 0.25
"""How many times as long the pauses of a control may be, and the least part of the step in them."""
MOST_SLOWER = 1.5
"""How many times as slow a host may be in the control: blocks of one program differed by as much on
a shared host."""
ROUNDS, PAUSE_ROUNDS = 8, 10
"""Rounds of bisection: the factor is then within 0.3 % of the host's time, and of its pauses."""


@once_each
def find_shadow(replay: Replay, control_ms: float, callback_ns: int = 0) -> Shadow | None:
    """What the profiler added, by the control, or without one (0) by its usual price; None where
    another profiler recorded. `callback_ns`: what it still takes of each call in the control.
    """
    if control_ms:
        shadow = subtract_profiler(replay, control_ms)
        return _drop_callbacks(replay, shadow, callback_ns) if shadow.is_measured else shadow
    return _take_typical(replay) if _is_calibrated(replay) else None


@once_each
def replay_prices(replay: Replay) -> list[tuple[Weights, float]]:
    """The program where the profiler takes the most of the host's time, and the least: weights, and
    the step (ms).
    """
    recorded = Weights.of(replay.graph)
    scaled = [scale_host(replay.graph, recorded, factor) for factor in sorted(FACTORS)]
    return [(weights, replay.predict_step(weights)) for weights in scaled]


def _drop_callbacks(replay: Replay, shadow: Shadow, callback_ns: int) -> Shadow:
    weights = drop_callbacks(replay.graph, shadow.weights, callback_ns)
    step_ms = replay.predict_step(weights)
    return replace(shadow, step_ms=step_ms, weights=weights, callback_ms=shadow.step_ms - step_ms)


def _is_calibrated(replay: Replay) -> bool:
    return all(rank.profiler == CALIBRATED for rank in replay.graph.ranks)


def _take_typical(replay: Replay) -> Shadow:
    graph = replay.graph
    typical = subtract_typical_price(graph, Weights.of(graph))
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
    makes it longer. Where the GPU hides the host, it is TYPICAL_FACTOR.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    target = (1 + ALIKE) * max(control_ms, least_ms)
    if _is_hidden(replay, target):
        return _take_typical(replay)
    if replay.step_ms <= target:
        return Shadow(1.0, replay.step_ms, weights)
    target = max(control_ms, target - ALIKE * control_ms)
    return _find_factor(replay, lambda factor: scale_host(graph, weights, factor), target)


def _is_hidden(replay: Replay, most_ms: float) -> bool:
    """Whether each of FACTORS gives the same step, of `most_ms` at most: then the control, which
    differs as much from run to run, tells no factor.

    An edit that makes the GPU faster does depend on it: with all of the recorded host a BERT (H200)
    gains 5.2 ms by fused attention, with 0.65 of it 9.9, and 9.2 were measured.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    low, high = (replay.predict_step(scale_host(graph, weights, each)) for each in sorted(FACTORS))
    return high <= min(most_ms, (1 + ALIKE) * low)


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
