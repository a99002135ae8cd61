"""The critical path of the replayed steps, as a group of tracks of a timeline."""

from collections.abc import Iterator, Sequence

import numpy as np

from gpu_profile.analysis.replay.collect import ReplayPart, join_parts
from gpu_profile.analysis.replay.critical_path import Stretch, find_critical_path, list_stretches
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.timeline.perfetto import BEGIN, END, NO_FLOW, Events


def list_path(parts: Sequence[ReplayPart], clock_error_ns: int) -> list[Stretch]:
    """The stretches of the path in the order of time; none where the replay does not hold."""
    return list_stretches_of(join_parts(parts, clock_error_ns))


def list_stretches_of(replay: Replay | str) -> list[Stretch]:
    """The stretches of a replay's path in the order of time; none without a replay."""
    if isinstance(replay, str):
        return []
    path = find_critical_path(replay.graph, replay.graph.time)
    stretches = (
        stretch for stretch in list_stretches(replay.graph, path) if stretch.end > stretch.start
    )
    return sorted(stretches, key=lambda stretch: (stretch.start, stretch.end))


def group_lanes(path: Sequence[Stretch]) -> Iterator[tuple[str, list[Stretch]]]:
    """The title and the stretches of each track: a thread or a stream of a rank."""
    lanes: dict[tuple[int, str], list[Stretch]] = {}
    for stretch in path:
        lanes.setdefault((stretch.rank, stretch.lane), []).append(stretch)
    for (rank, lane), stretches in sorted(lanes.items()):
        yield f"rank {rank}, {lane}", stretches


def name_stretch(stretch: Stretch) -> str:
    """For example "kernel in backward transformer.h.3.attn", or "host pause"."""
    return f"{stretch.part} in {stretch.place}" if stretch.place else stretch.part


def make_events(stretches: Sequence[Stretch], codes: Sequence[int]) -> Events:
    """The events of one track, whose stretches follow each other; `codes` are their names'."""
    time = np.array([(stretch.start, stretch.end) for stretch in stretches], np.int64).ravel()
    kind = np.tile(np.array([BEGIN, END]), len(stretches))
    name = np.repeat(np.array(codes, np.int64), 2)
    return Events(time, kind, name, np.full(len(time), NO_FLOW))
