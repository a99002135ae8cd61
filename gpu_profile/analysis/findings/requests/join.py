"""Join a log of requests with the iterations of the engine that answered them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

import numpy as np

from gpu_profile.analysis.activity.serving.quantiles import QUANTILES
from gpu_profile.analysis.findings.requests.log import Request, RequestLog
from gpu_profile.analysis.findings.requests.times import PROMPTS, WHERE, IterationTimes
from gpu_profile.errors import SettingsError
from gpu_profile.printable import printable

MOST_TOLD = 3
"""Requests that are told by each measure, and the fewest that are compared."""
SLOW = 1.1
"""Times the median: a request below is none that a user would ask about."""


@dataclass(frozen=True)
class Quantiles:
    """In ms."""

    median: float
    p95: float
    p99: float

    @classmethod
    def of_seconds(cls, seconds: Sequence[float]) -> "Quantiles":
        milliseconds = 1e3 * np.quantile(seconds or [0.0], tuple(QUANTILES.values()))
        return cls(*milliseconds.tolist())

    def __str__(self) -> str:
        return f"{self.median:.1f} ms median, {self.p95:.1f} p95, {self.p99:.1f} p99"


@dataclass(frozen=True)
class SlowRequest:
    """A request, and the place of WHERE in which it spent more than the median request did."""

    id: str
    what: str
    ms: float
    more_ms: float
    where: str
    median_ms: float

    def __str__(self) -> str:
        more = f"{self.more_ms:.1f} ms more than the median request in: {self.where}"
        return f"{self.id}: {self.what} {self.ms:.1f} ms (median {self.median_ms:.1f}), {more}"


@dataclass(frozen=True)
class RequestFacts:
    """What a log says, and of requests that the recording holds as a whole (`joined`) why they were
    slow. `queued`: at least, until an iteration began that could hold the prompt. `why_no_reasons`:
    why no request is told, e.g. "the log does not say when each request came".
    """

    count: int
    failed: int
    joined: int
    tokens_a_second: float
    first_token: Quantiles
    between_tokens: Quantiles
    queued: Quantiles | None
    slowest: tuple[SlowRequest, ...]
    why_no_reasons: str = ""

    def to_lines(self) -> Iterator[str]:
        failed = f" ({self.failed} without an answer are left out)" if self.failed else ""
        yield f"requests: {self.count}{failed}, {self.tokens_a_second:.1f} tokens a second"
        yield f"   time to the first token: {self.first_token}"
        if self.queued:
            yield f"   of it at least queued: {self.queued}"
        yield f"   time between tokens: {self.between_tokens}"
        if self.why_no_reasons:
            yield f"   {self.why_no_reasons}, so none is given a reason"
        yield from (printable(f"   slow: {request}") for request in self.slowest)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def judge_requests(log: RequestLog, times: IterationTimes | None) -> RequestFacts:
    """The facts of a log. Raises SettingsError for one of another time than the recording's."""
    joined = _choose_joined(log, times)
    queued = [_measure_queue(request, times) for request in joined] if times else []
    slowest = _find_slowest(joined, times) if times else ()
    return RequestFacts(
        count=len(log.waits),
        failed=log.failed,
        joined=len(joined),
        tokens_a_second=log.tokens_a_second,
        first_token=Quantiles.of_seconds(log.waits),
        between_tokens=Quantiles.of_seconds(log.betweens),
        queued=Quantiles.of_seconds(queued) if queued else None,
        slowest=slowest,
        why_no_reasons=_tell_why_none(log, len(joined), bool(slowest)),
    )


def _tell_why_none(log: RequestLog, joined: int, has_slow: bool) -> str:
    if not log.requests:
        return "the log does not say when each request came"
    if joined < MOST_TOLD:
        return f"fewer than {MOST_TOLD} requests came and got their first token in the recording"
    return (
        "" if has_slow else f"no request took {100 * (SLOW - 1):.0f} % longer than the median one"
    )


def _choose_joined(log: RequestLog, times: IterationTimes | None) -> list[Request]:
    """The requests that the recording holds from their arrival to their first token."""
    if not log.requests:
        return []
    if times is None:
        what = "the reports hold no iterations of an engine with Unix times"
        raise SettingsError(what, "Leave --requests out; docs/serving.md says what is needed")
    start, end = float(times.start[0]) / 1e9, float(times.end[-1]) / 1e9
    low, high = min(r.arrival for r in log.requests), max(r.end for r in log.requests)
    if high <= start or end <= low:
        requests, recording = _format_span(low, high), _format_span(start, end)
        what = f"the requests are of {requests}, the recording of {recording}"
        raise SettingsError(what, "Use the log of the recorded time")
    first = float(times.host_start[0]) / 1e9
    return [r for r in log.requests if first <= r.arrival and r.first_token <= end]


def _format_span(start: float, end: float) -> str:
    return f"{_format_time(start)} to {_format_time(end)}"


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _measure_queue(request: Request, times: IterationTimes) -> float:
    """Seconds from the arrival to the first iteration that could hold the prompt, at least."""
    arrival = round(request.arrival * 1e9)
    begin = times.find_prompt(arrival)
    return 0.0 if begin is None else min(request.wait_s, max(0.0, (begin - arrival) / 1e9))


def _find_slowest(requests: Sequence[Request], times: IterationTimes) -> tuple[SlowRequest, ...]:
    """The slowest by the time to the first token, then by the time between tokens."""
    spans = [(round(r.arrival * 1e9), round(r.first_token * 1e9), 1) for r in requests]
    slow = _compare(requests, times, spans, "first token after")
    longer = [r for r in requests if r.tokens > 1 and r.end * 1e9 <= times.end[-1]]
    spans = [(round(r.first_token * 1e9), round(r.end * 1e9), r.tokens - 1) for r in longer]
    return (*slow, *_compare(longer, times, spans, "between tokens"))


def _compare(
    requests: Sequence[Request],
    times: IterationTimes,
    spans: Sequence[tuple[int, int, int]],
    what: str,
) -> tuple[SlowRequest, ...]:
    """The requests with the longest spans (start, end, tokens in it), each with what took longer
    than for the median request.
    """
    if len(requests) < MOST_TOLD:
        return ()
    spent = np.array([times.sum_between(a, b) / count for a, b, count in spans]) / 1e6
    total, usual = spent.sum(axis=1), np.median(spent, axis=0)
    middle, slowest = float(np.median(total)), list[SlowRequest]()
    rows = np.argsort(-total, kind="stable")[:MOST_TOLD]
    for row in rows[total[rows] > SLOW * middle].tolist():
        more = spent[row] - usual
        place = int(np.argmax(more))
        where = WHERE[place] if WHERE[place] != PROMPTS else f"{PROMPTS}, its own and others'"
        numbers = float(total[row]), float(more[place])
        slowest.append(SlowRequest(requests[row].id, what, *numbers, where, middle))
    return tuple(slowest)
