"""The critical path of the replayed steps as a row of each rank's timeline."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from gpu_profile.analysis.page.marks import Marks
from gpu_profile.analysis.replay.critical_path import (
    BLOCKED,
    CALL,
    COPY,
    HOST,
    KERNEL,
    PAUSE,
    TRANSFER,
    Stretch,
)
from gpu_profile.analysis.timeline.path_track import name_stretch

KINDS = ("host", "compute", "transfer", "memory", "waiting")
"""The kinds of a stretch, in the order of the script's colours."""
_KIND_OF = {HOST: 0, PAUSE: 0, CALL: 0, BLOCKED: 0, KERNEL: 1, TRANSFER: 2, COPY: 3}
PathOf: TypeAlias = Mapping[int, Marks]
"""The stretches of the path by rank."""


def draw_path(path: Iterable[Stretch]) -> PathOf:
    """The path by rank; a rank that is not on it has none."""
    by_rank: dict[int, list[Stretch]] = {}
    for stretch in path:
        by_rank.setdefault(stretch.rank, []).append(stretch)
    return {rank: _make_marks(stretches) for rank, stretches in by_rank.items()}


def _make_marks(stretches: Sequence[Stretch]) -> Marks:
    ordered = sorted(stretches, key=lambda stretch: (stretch.start, stretch.end))
    texts = [name_stretch(stretch) for stretch in ordered]
    codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    return Marks(
        np.array([stretch.start for stretch in ordered], np.int64),
        np.array([stretch.end for stretch in ordered], np.int64),
        np.array([codes[text] for text in texts], np.int64),
        np.array([_KIND_OF.get(stretch.part, 4) for stretch in ordered], np.int64),
        tuple(codes),
    )
