"""The program without the profiler: host delays, scaled until the replay gives the step of a run,
or of steps, that were not recorded.

nsys and the marks make the host slower, call by call, and the GPU hardly at all. On an H100 (nsys
2025.3.1, marks of steps) one factor of 0.50 to 0.79 explains the step of each of 13 programs that
the host limits, and what their fixes gain is then predicted for these programs, not for the
recorded ones. A price of each call explains them worse: it would be 4 us in one and 40 in another.
"""

from dataclasses import replace

from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.driver_scale import scale_allocations, scale_staged_copies
from gpu_profile.analysis.replay.shadow.fits import (
    ALIKE,
    LEAST_FACTOR,
    fit_copies,
    fit_driver,
    fit_host,
    fit_pauses,
    fit_slower_host,
    leave_pauses,
    take_typical,
)
from gpu_profile.analysis.replay.shadow.host_scale import FACTORS, TYPICAL_FACTOR, scale_host
from gpu_profile.analysis.replay.shadow.nsys_prices import drop_callbacks
from gpu_profile.analysis.replay.shadow.plain_step import UNKNOWN, Ratios
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.shadow.timed_phases import (
    TimedHost,
    measure_host,
)
from gpu_profile.analysis.replay.weights import Weights

CALIBRATED = "NVIDIA Nsight Systems"
"""The profiler that the factors are of."""


@once_each
def find_shadow(
    replay: Replay, control_ms: float, callback_ns: int = 0, ratios: Ratios = UNKNOWN
) -> Shadow | None:
    """What the profiler added, by the control, or without one (0) by its usual price; None where
    another profiler recorded. `callback_ns`: what it still takes of each call in the control.
    `ratios`: of the control's phases to the recorded ones.
    """
    if control_ms:
        shadow = subtract_profiler(replay, control_ms)
        timed = measure_host(replay.graph, ratios)
        shadow = (timed and take_timed(replay, control_ms, timed, shadow)) or shadow
        return _drop_callbacks(replay, shadow, callback_ns) if shadow.is_measured else shadow
    return take_typical(replay) if _is_calibrated(replay) else None


@once_each
def replay_prices(
    replay: Replay, factors: tuple[float, float] = FACTORS
) -> list[tuple[Weights, float]]:
    """The program where the profiler takes the most of the host's time, and the least: weights, and
    the step (ms). `factors`: of Shadow.
    """
    recorded = Weights.of(replay.graph)
    scaled = [scale_host(replay.graph, recorded, factor) for factor in factors]
    return [(weights, replay.predict_step(weights)) for weights in scaled]


def _drop_callbacks(replay: Replay, shadow: Shadow, callback_ns: int) -> Shadow:
    weights = drop_callbacks(replay.graph, shadow.weights, callback_ns)
    step_ms = replay.predict_step(weights)
    return replace(shadow, step_ms=step_ms, weights=weights, callback_ms=shadow.step_ms - step_ms)


def _is_calibrated(replay: Replay) -> bool:
    return all(rank.profiler == CALIBRATED for rank in replay.graph.ranks)


def take_timed(replay: Replay, control_ms: float, timed: TimedHost, usual: Shadow) -> Shadow | None:
    """The host at the speed that was timed, where the step is then the control's, or is with other
    pauses, or the GPU hides the host; else None. `usual`: what the control alone tells.
    """
    graph = replay.graph
    weights = scale_host(graph, Weights.of(graph), timed.factor)
    shadow = Shadow(timed.factor, replay.predict_step(weights), weights, timed_in=timed.phases)
    if abs(shadow.step_ms / control_ms - 1) <= ALIKE:
        return shadow
    if by_pauses := fit_pauses(replay, timed.factor, control_ms):
        return replace(by_pauses, timed_in=timed.phases)
    is_hidden = abs(shadow.step_ms / usual.step_ms - 1) <= ALIKE
    return shadow if is_hidden and usual.factors == FACTORS else None


def subtract_profiler(replay: Replay, control_ms: float) -> Shadow:
    """Scale the host's delays so that the unchanged replay gives a step of `control_ms`.

    The factor is the largest that does. Less than the least of FACTORS is not the profiler's doing:
    then the host takes that part, and the rest is its pauses, which were longer when it was
    recorded. Where a step has few pauses, and in reports of other profilers, the factor is any from
    LEAST_FACTOR to 1. Where no factor reaches the control, it is TYPICAL_FACTOR, and the rest is
    calls that allocate, pauses that were longer or in the recorded steps alone, or copies that the
    driver stages. A longer control has longer pauses, allocations or copies, or a slower host.
    Where the pauses explain it, it tells nothing of the profiler's price: that is the usual one.
    """
    graph, weights = replay.graph, Weights.of(replay.graph)
    least_ms = replay.predict_step(scale_host(graph, weights, LEAST_FACTOR))
    if least_ms > (1 + ALIKE) * control_ms:
        shadow = fit_driver(replay, scale_allocations, TYPICAL_FACTOR, control_ms)
        shadow = shadow or fit_pauses(replay, TYPICAL_FACTOR, control_ms)
        shadow = shadow or leave_pauses(replay, control_ms, least_ms)
        shadow = shadow or fit_copies(replay, control_ms)
        if shadow:
            return shadow
    host = fit_host(replay, control_ms, least_ms)
    least = min(FACTORS) if _is_calibrated(replay) else LEAST_FACTOR
    is_longer = replay.step_ms < (1 - ALIKE) * control_ms
    if host.factor >= least and not is_longer:
        return host
    nearest = max(least, host.factor)
    usual = (TYPICAL_FACTOR,) if is_longer and _is_calibrated(replay) else ()
    fits = (fit_pauses(replay, factor, control_ms) for factor in (*usual, nearest))
    shadow = next(filter(None, fits), None)
    if not shadow and is_longer:
        shadow = fit_driver(replay, scale_allocations, nearest, control_ms)
        shadow = shadow or fit_driver(replay, scale_staged_copies, nearest, control_ms)
        shadow = shadow or fit_slower_host(replay, control_ms)
    return shadow or host
