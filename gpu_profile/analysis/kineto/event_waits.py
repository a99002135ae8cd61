"""The recorded events that streams wait for, as the waits of a trace tell of them.

torch.profiler writes waits with `_ExperimentalConfig(enable_cuda_sync_events=True)`. A wait names
the call that recorded its event, and the stream of that. Source of the arguments:
https://github.com/pytorch/kineto/blob/main/libkineto/src/CuptiActivity.cpp
"""

from collections import Counter
from dataclasses import dataclass, field

from gpu_profile.analysis.kineto.events import Event

STREAM_WAIT, EVENT_SYNC = "Stream Wait Event", "Event Sync"
_LEAST_KNOWN = 0.8
"""In recordings of nsys 24 to 100 % of the waits of streams name a recorded event: a wait for an
event that was never recorded waits for nothing. For calls that block for an event the share is 92
to 100 %. From CUDA 12.9 on none of a trace may name one: a replay that ignored them all would be
wrong (https://github.com/pytorch/kineto/pull/1552)."""


@dataclass
class EventWaits:
    """Counts waits by kind, all and those that name a recorded event, and keeps these events:
    (device, context, stream) by the correlation of the call that recorded each.
    """

    total: Counter[str] = field(default_factory=Counter)
    known_total: Counter[str] = field(default_factory=Counter)
    events: dict[int, tuple[int | str, int, int]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        args = event.args
        self.total[event.name] += 1
        if args.waits_for >= 0 and args.waits_for_stream >= 0:
            self.known_total[event.name] += 1
            device = event.pid if args.device < 0 else args.device
            self.events[args.waits_for] = device, args.context, args.waits_for_stream

    @property
    def are_known(self) -> bool:
        """Whether the waits between streams can be followed."""
        has_blocks = self.known_total[EVENT_SYNC] >= _LEAST_KNOWN * self.total[EVENT_SYNC]
        return self.known_total[STREAM_WAIT] > 0 and has_blocks

    def list_rows(self, when: int) -> list[tuple[object, ...]]:
        """Return rows of CUDA_EVENT; what counts is when the recording call was made."""
        return [
            (when, when, *place, correlation, correlation)
            for correlation, place in self.events.items()
        ]
