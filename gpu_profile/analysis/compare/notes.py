"""What differs between the runs of a comparison and is no loss of data: one line each."""

from collections.abc import Sequence

from gpu_profile.analysis.compare.lost_data import ALIKE, measure_kernels
from gpu_profile.analysis.compare.rank_sets import Runs
from gpu_profile.analysis.compare.samples import RankSamples

MOST_RANKS = 4
# Two recordings of one program by time differ by this part of their steps.
STEPS_ALIKE = 0.1


def list_notes(base: Runs, new: Runs) -> tuple[str, ...]:
    """Lines on other numbers of kernels and steps than the base's, and on nsys' own warnings."""
    lines = [*_note_kernels(base[0], new[0]), *_note_steps(base[0], new[0])]
    for side, runs in (("base", base), ("new", new)):
        texts: dict[str, int] = {}
        # In reverse, so that of several ranks with one warning the first is named.
        for rank in reversed([rank for run in runs for rank in run]):
            if rank.completeness:
                texts |= dict.fromkeys(rank.completeness.warnings, rank.rank)
        lines += [f"nsys on rank {rank} of the {side} run: {text}" for text, rank in texts.items()]
    return tuple(lines)


def _note_kernels(base: Sequence[RankSamples], new: Sequence[RankSamples]) -> list[str]:
    before, after = measure_kernels(base), measure_kernels(new)
    changed = [
        rank
        for rank in sorted(before.keys() & after.keys())
        if abs(after[rank] - before[rank]) > ALIKE * max(before[rank], after[rank])
    ]
    if not changed:
        return []
    texts = [f"rank {rank} {before[rank]:.4g} -> {after[rank]:.4g}" for rank in changed]
    more = f" and {len(texts) - MOST_RANKS} more ranks" if len(texts) > MOST_RANKS else ""
    others = "" if len(changed) == len(after) else ", as many as before on the other ranks"
    return [f"another number of kernels a step: {', '.join(texts[:MOST_RANKS])}{more}{others}"]


def _note_steps(base: Sequence[RankSamples], new: Sequence[RankSamples]) -> list[str]:
    before, after = (max((len(rank.steps) for rank in run), default=0) for run in (base, new))
    if abs(after - before) <= max(1, STEPS_ALIKE * max(before, after)):
        return []
    return [f"the base run recorded {before} steps, and the new one {after}"]
