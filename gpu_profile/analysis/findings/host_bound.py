"""Findings about GPUs that idle because of their host: launches, stalls, synchronisation."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from gpu_profile.analysis.activity.idle import CAUSES, LAUNCH, QUEUED, STALL, SYNC
from gpu_profile.analysis.arrays.periods import find_period
from gpu_profile.analysis.findings.finding import Finding, Judgement, View, format_ranks
from gpu_profile.analysis.findings.rank_facts import TINY_NS

# A well-fed GPU idles for a few percent of a step. Below 10 % there is little to save, and the
# profiler's overhead of some microseconds at each launch can explain it.
IDLE_SHARE = 0.10
# A call in every other step belongs to the loop. It must cost 1 % of the step in idle time. Where
# calls hold the host for a quarter of the step, 0.3 % are enough, as the host has no lead then.
SYNCS_PER_STEP, SYNC_SHARE = 0.5, 0.01
HELD_SHARE, HELD_SYNC_SHARE = 0.25, 0.003
# A call that returns sooner did not wait (with nothing to wait for it takes 2 to 4 us).
HELD_NS = 5_000
MOST_CALLS = 4
# An ordinary layer launches some tens of small kernels, and a step some hundreds.
TINY_PER_STEP, TINY_PART, TINY_SHARE = 500, 0.6, 0.10
DATA_RANGE = re.compile(r"data|load|fetch|batch|input|dataset|next", re.I)

HOST_ADVICE = (
    "Issue less work per step from the host: larger batches, CUDA graphs (torch.compile "
    'mode="reduce-overhead"), fused or foreach optimizers; keep logging and Python work out of '
    "the step. Tracing adds a few microseconds to each launch, so measure it with --baseline."
)
DATA_ADVICE = (
    "prepare batches ahead of the step: more DataLoader workers, pin_memory, prefetch_factor, "
    "heavier preprocessing on the GPU or beforehand."
)
STALL_ADVICE = {
    "data": f"P{DATA_ADVICE[1:]}",
    "host": "Look at what the host does there (--preset=full names the function); move it off the "
    "launching thread or out of the step.",
    "queued": "The work was issued in time and waited for an event or another stream: check "
    "stream dependencies.",
}
SYNC_ADVICE = (
    "Do not ask for results in the step: no .item(), .cpu(), print(tensor) or synchronize(); "
    "log every n-th step, keep sums on the GPU, copy with non_blocking=True."
)
TINY_ADVICE = (
    "Fuse them: torch.compile, fused or foreach optimizers, CUDA graphs, batched operations "
    "in place of loops over tensors."
)


def judge_host_bound(views: Sequence[View]) -> Judgement:
    """Find steps whose pace is that of the host's launches: short gaps before most operations."""
    idle_views = [view for view in views if view.share("idle_launch") >= IDLE_SHARE]
    return _judge_state(
        "host_bound", "launch", idle_views, _launch_ms, _launch_evidence, HOST_ADVICE
    )


def _launch_ms(view: View) -> float:
    return view.ms("idle_launch")


def _queued_ms(view: View) -> float:
    return view.ms("idle_queued")


def judge_idle(views: Sequence[View]) -> Judgement:
    """Find stalls of the host, by what it was doing, and operations that waited in the queue."""
    silent = [view for view in views if _stall_ms(view) >= IDLE_SHARE * view.step_ms > 0]
    data = [view for view in silent if _waits_for_data(view)]
    other = [view for view in silent if view not in data]
    # An operation without a recorded call may or may not have been queued.
    explained = [
        view for view in views if 100 * view.facts.health.orphans < view.facts.health.operations
    ]
    queued = [view for view in explained if view.share("idle_queued") >= IDLE_SHARE]
    parts = (
        _judge_state("idle", "data", data, _stall_ms, _stall_evidence, STALL_ADVICE["data"]),
        _judge_state("idle", "host", other, _stall_ms, _stall_evidence, _host_advice(other)),
        _judge_state(
            "idle", "queued", queued, _queued_ms, _queued_evidence, STALL_ADVICE["queued"]
        ),
    )
    return Judgement(tuple(finding for part in parts for finding in part.findings))


def _host_advice(views: Sequence[View]) -> str:
    works = [view.facts.host_work.get(STALL) for view in views]
    loads = any(work and work.before_input for work in works)
    return (
        f"{STALL_ADVICE['host']} If it loads data there: {DATA_ADVICE}"
        if loads
        else (STALL_ADVICE["host"])
    )


def _waits_for_data(view: View) -> bool:
    """Whether the host waited for data, by its NVTX range, its sampled stacks, or its waits."""
    work = view.facts.host_work.get(STALL)
    place, _ = view.top_place(STALL)
    named = not place.is_module and DATA_RANGE.search(place.name)
    return bool(named) or bool(work and work.is_loading)


def _stall_ms(view: View) -> float:
    """Stall time in a step (ms). A delay in every n-th step counts in full, however large n is."""
    values = view.steady(view.split.spent["idle_stall"])
    mean = float(np.mean(values)) / 1e6 if find_period(values) else 0.0
    return max(view.ms("idle_stall"), mean)


def judge_synchronization(views: Sequence[View]) -> Judgement:
    """Find blocking calls in the steps that left the GPU without work afterwards.

    The finding names all ranks that make the calls, also those that do not lose time by them.
    """
    paying = [view for view in views if _list_habits(view) and _sync_costs(view)]
    if not paying:
        return Judgement()
    names = {name for view in paying for name in _list_habits(view)}
    blocked_views = [
        v for v in views if any(_per_step(v, name) >= SYNCS_PER_STEP for name in names)
    ]
    gain = float(np.mean([view.mean(view.facts.sync_cost) for view in paying])) / 1e6
    evidence = (*_sync_evidence(paying), *_no_steps(paying))
    return Judgement(
        (_make_finding("synchronization", "sync", blocked_views, gain, evidence, SYNC_ADVICE),)
    )


def judge_tiny_kernels(views: Sequence[View]) -> Judgement:
    """Find many kernels that cost the host more time than the GPU, with idle gaps before them."""
    tiny_views = [view for view in views if _tiny_share(view) >= TINY_SHARE and _is_many(view)]
    if not tiny_views:
        return Judgement()
    gain = float(np.mean([view.mean(view.facts.tiny_idle) for view in tiny_views])) / 1e6
    evidence = (*_tiny_evidence(tiny_views), *_no_steps(tiny_views))
    return Judgement(
        (_make_finding("tiny_kernels", "launch", tiny_views, gain, evidence, TINY_ADVICE),)
    )


def _make_finding(
    kind: str, cause: str, views: Sequence[View], gain: float, evidence: Sequence[str], advice: str
) -> Finding:
    ranks = tuple(sorted({view.rank for view in views}))
    return Finding(kind, ranks, cause, gain, tuple(evidence), advice)


def _judge_state(
    kind: str,
    cause: str,
    views: Sequence[View],
    cost_ms: Callable[[View], float],
    evidence: Callable[[Sequence[View]], tuple[str, ...]],
    advice: str,
) -> Judgement:
    """A finding on these ranks with their mean cost; no finding without ranks."""
    if not views:
        return Judgement()
    gain = float(np.mean([cost_ms(view) for view in views]))
    facts = (*evidence(views), *_no_steps(views))
    return Judgement((_make_finding(kind, cause, views, gain, facts, advice),))


def _no_steps(views: Sequence[View]) -> tuple[str, ...]:
    if all(view.has_steps for view in views):
        return ()
    return ("no steps were found: times are of the whole capture",)


def _idle_line(views: Sequence[View], cost_ms: Callable[[View], float], words: str) -> str:
    worst = max(views, key=lambda view: cost_ms(view) / view.step_ms)
    mean = float(np.mean([cost_ms(view) for view in views]))
    step = float(np.mean([view.step_ms for view in views]))
    return (
        f"{format_ranks(v.rank for v in views)}: {mean:.2f} of {step:.2f} ms a step {words}; "
        f"most on rank {worst.rank}, {100 * cost_ms(worst) / worst.step_ms:.0f} %"
    )


def _place_lines(views: Sequence[View], cause: int) -> tuple[str, ...]:
    """Evidence on the worst rank: the module or range with most idle time, and the longest gap."""
    worst = max(views, key=lambda view: view.share(f"idle_{CAUSES[cause]}"))
    place, part = worst.top_place(cause)
    lines = [f"rank {worst.rank}: {100 * part:.0f} % of it in {place}"] if place.name else []
    period = find_period(worst.steady(worst.split.spent[f"idle_{CAUSES[cause]}"]))
    work = worst.facts.host_work.get(cause)
    if period:
        lines.append(f"rank {worst.rank}: {period}")
        if work and work.before_input:
            lines.append(f"so waits a data loader whose {period.n} workers are too slow")
    if cause in worst.facts.longest:
        ns, at = worst.facts.longest[cause]
        lines.append(f"rank {worst.rank}: longest gap {ns / 1e6:.3f} ms at {at / 1e6:.1f} ms")
    lines += [f"rank {worst.rank}: {line}" for line in work.lines()] if work else []
    return tuple(lines)


def _launch_evidence(views: Sequence[View]) -> tuple[str, ...]:
    words = "with the GPU drained before the host issued its next operation"
    return (_idle_line(views, _launch_ms, words), *_place_lines(views, LAUNCH))


def _stall_evidence(views: Sequence[View]) -> tuple[str, ...]:
    words = "idle while the host issued nothing for over a millisecond"
    return (_idle_line(views, _stall_ms, words), *_place_lines(views, STALL))


def _queued_evidence(views: Sequence[View]) -> tuple[str, ...]:
    words = "idle with work issued that waited for something else"
    return (_idle_line(views, _queued_ms, words), *_place_lines(views, QUEUED))


def _per_step(view: View, name: str) -> float:
    return view.mean(view.facts.blockers[name][0]) if name in view.facts.blockers else 0.0


def _list_habits(view: View) -> list[str]:
    """The synchronising calls that this rank makes in most steps and that block the host."""
    return [
        name
        for name, (count, held, copies) in sorted(view.facts.blockers.items())
        if not copies
        and view.mean(count) >= SYNCS_PER_STEP
        and view.mean(held) >= HELD_NS * view.mean(count)
    ]


def _longest_held(view: View) -> list[str]:
    """The calls that block the host in most steps, longest first; blocking copies included."""
    blockers = view.facts.blockers
    held = {name: view.mean(blockers[name][1]) for name in _list_habits(view)}
    copies = [name for name, (*_, copies) in blockers.items() if copies]
    held |= {
        name: view.mean(blockers[name][1])
        for name in copies
        if _per_step(view, name) >= SYNCS_PER_STEP
    }
    ordered = sorted(held, key=lambda name: (-held[name], name))
    return [name for name in ordered[:MOST_CALLS] if held[name] >= 0.01 * held[ordered[0]]]


def _sync_share(view: View) -> float:
    return view.mean(view.facts.sync_cost) / 1e6 / view.step_ms if view.step_ms else 0.0


def _sync_costs(view: View) -> bool:
    held = sum(view.mean(view.facts.blockers[name][1]) for name in _list_habits(view))
    habit = held / 1e6 >= HELD_SHARE * view.step_ms
    return _sync_share(view) >= (HELD_SYNC_SHARE if habit else SYNC_SHARE)


def _sync_evidence(views: Sequence[View]) -> tuple[str, ...]:
    worst = max(views, key=_sync_share)
    cost = worst.mean(worst.facts.sync_cost) / 1e6
    calls = [
        f"rank {worst.rank}: {name}, {_per_step(worst, name):.1f} times a step, held the host "
        f"{worst.mean(worst.facts.blockers[name][1]) / 1e6:.2f} ms a step"
        for name in _longest_held(worst)
    ]
    return (
        f"rank {worst.rank}: {cost:.2f} of {worst.step_ms:.2f} ms a step idle because a call "
        "waited for the GPU and used up the host's lead",
        *calls,
        *_place_lines(views, SYNC),
    )


def _tiny_share(view: View) -> float:
    return view.mean(view.facts.tiny_idle) / 1e6 / view.step_ms if view.step_ms else 0.0


def _is_many(view: View) -> bool:
    tiny, kernels = view.mean(view.facts.tiny), view.mean(view.facts.kernel_count)
    return tiny >= TINY_PER_STEP and tiny >= TINY_PART * kernels


def _tiny_evidence(views: Sequence[View]) -> tuple[str, ...]:
    worst = max(views, key=_tiny_share)
    tiny, kernels = worst.mean(worst.facts.tiny), worst.mean(worst.facts.kernel_count)
    return (
        f"rank {worst.rank}: {tiny:.0f} of {kernels:.0f} kernels a step take under "
        f"{TINY_NS / 1e3:.0f} us, and for {100 * _tiny_share(worst):.0f} % of the step the GPU "
        "waits for the next of them",
    )
