"""Fit the host to a control: its own work, its pauses, or what the driver takes of it, scaled until
the step is the control's.
"""

from collections.abc import Callable
from dataclasses import replace

from gpu_profile.analysis.replay.edits.calls import remove_pauses
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.driver_scale import Scale, scale_staged_copies
from gpu_profile.analysis.replay.shadow.host_scale import (
    FACTORS,
    HIDDEN,
    LEAST_KNOWN,
    TYPICAL_FACTOR,
    lengthen_pauses,
    scale_host,
    subtract_typical_price,
)
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.weights import Weights

LEAST_FACTOR = 0.2
"""Less of the recorded host time is not the profiler's doing: the two programs differ."""
ALIKE = 0.02
"""Steps that differ by less are equal: a step differs by as much from run to run."""
NEAR = 1.1
"""How many times the control a step without pauses may take that is still told as the control's."""
MOST_LONGER, LEAST_PAUSES = 4.0, 0.25
"""How many times as long the pauses of a control may be, and the least part of the step in them."""
MOST_SLOWER = 1.5
"""How many times as slow a host may be in the control: blocks of one program differed by as much on
a shared host."""
ROUNDS, PAUSE_ROUNDS = 8, 10
"""Rounds of bisection: the factor is then within 0.3 % of the host's time, and of its pauses."""


def take_typical(replay: Replay) -> Shadow:
    """The host without the usual price of the profiler."""
    graph = replay.graph
    typical = subtract_typical_price(graph, Weights.of(graph))
    return Shadow(TYPICAL_FACTOR, replay.predict_step(typical), typical, FACTORS)


def fit_host(replay: Replay, control_ms: float, least_ms: float) -> Shadow:
    """Scale the host without its pauses; `least_ms`: the step with LEAST_FACTOR.

    The factor is 1 where the recorded step is as short as the control, and where the GPU alone
    makes it longer. Where the GPU hides the host, it is TYPICAL_FACTOR, or less.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    target = (1 + ALIKE) * max(control_ms, least_ms)
    if _is_hidden(replay, target):
        return take_typical(replay)
    if replay.step_ms <= target:
        return Shadow(1.0, replay.step_ms, weights)
    below = _take_below(replay, target, least_ms) if control_ms <= (1 + ALIKE) * least_ms else None
    target = max(control_ms, target - ALIKE * control_ms)
    return below or _find_factor(replay, lambda factor: scale_host(graph, weights, factor), target)


def _take_below(replay: Replay, most_ms: float, least_ms: float) -> Shadow | None:
    """The middle of the factors that programs have, up to the one that gives `most_ms`; None where
    the step is not the GPU's there, `least_ms`. The control tells no more than that limit.

    Of a step of attention by single kernels (H200) factors of 0.20 to 0.64 give the control, and
    a fix for which the host is the limit asks for 0.5.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    most = _find_factor(replay, lambda factor: scale_host(graph, weights, factor), most_ms).factor
    factor = (LEAST_KNOWN + most) / 2
    scaled = scale_host(graph, weights, factor)
    step_ms = replay.predict_step(scaled)
    if most < min(FACTORS) or step_ms > (1 + HIDDEN) * least_ms:
        return None
    return Shadow(factor, step_ms, scaled, (LEAST_KNOWN, most))


def _is_hidden(replay: Replay, most_ms: float) -> bool:
    """Whether each of FACTORS gives the same step, of `most_ms` at most: then the control, which
    differs as much from run to run, tells no factor.

    An edit that makes the GPU faster does depend on it: with all of the recorded host a BERT (H200)
    gains 5.2 ms by fused attention, with 0.65 of it 9.9, and 9.2 were measured.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    low, high = (replay.predict_step(scale_host(graph, weights, each)) for each in sorted(FACTORS))
    return high <= min(most_ms, (1 + ALIKE) * low)


def fit_slower_host(replay: Replay, control_ms: float) -> Shadow | None:
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


def fit_pauses(replay: Replay, factor: float, control_ms: float) -> Shadow | None:
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


def leave_pauses(replay: Replay, control_ms: float, least_ms: float) -> Shadow | None:
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


def fit_copies(replay: Replay, control_ms: float) -> Shadow | None:
    """Scale the copies that the driver stages, where a step without pauses is not NEAR the control.

    Of less, the gaps between kernels are a part: nsys adds 0.3 to 1.1 us before each (H200).
    """
    graph = replay.graph
    host = scale_host(graph, Weights.of(graph), TYPICAL_FACTOR)
    if replay.predict_step(remove_pauses()(graph, host)) <= NEAR * control_ms:
        return None
    return fit_driver(replay, scale_staged_copies, TYPICAL_FACTOR, control_ms)


def fit_driver(replay: Replay, scale: Scale, factor: float, control_ms: float) -> Shadow | None:
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
