"""Read a log of requests: JSON lines, or what the load generators of engines write."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from gpu_profile.errors import SettingsError

MOST_BYTES = 256 * 2**20
KEYS = ("id", "arrival", "first_token", "end", "tokens")
FORM = (
    'Use a line a request: {"id": "a", "arrival": 1790000000.1, "first_token": 1790000000.3, '
    '"end": 1790000002.5, "tokens": 80}, times in Unix seconds'
)
# Unix seconds from 2001 to 2286: milliseconds and clocks that count from a machine's start are not.
EARLIEST, LATEST = 1e9, 1e10
MOST_TOKENS = 1e9
"""Of one request; the sum of larger numbers may be no float."""
_DETAILS = ("ttfts", "itls", "output_lens")
"""Lists, an entry a request: `vllm bench serve --save-result --save-detailed`, benchmark_serving of
TensorRT-LLM with the same flags, and SGLang's bench_serving with --output-details. Their start
times, where there are any, count from the machine's start (time.perf_counter).
"""
_BENCH_KEYS = ("start_timestamp", "first_token_timestamp", "end_timestamp", "output_tokens")
"""Of each request in the list that `trtllm-bench throughput --request_json` writes (TensorRT-LLM
1.x): ns since the machine's start. Without --streaming the first token has no time (-1).
"""


@dataclass(frozen=True)
class Request:
    """A request that was answered; times in Unix seconds."""

    id: str
    arrival: float
    first_token: float
    end: float
    tokens: int

    @property
    def wait_s(self) -> float:
        """The time to the first token."""
        return self.first_token - self.arrival

    @property
    def between_s(self) -> float:
        """The mean time between two tokens; 0 of a single token."""
        return (self.end - self.first_token) / (self.tokens - 1) if self.tokens > 1 else 0.0


@dataclass(frozen=True)
class RequestLog:
    """`requests` have times; a load generator says only seconds: `waits` to the first tokens and
    `betweens` of tokens. `failed`: requests without an answer, which are left out.
    """

    requests: tuple[Request, ...]
    waits: tuple[float, ...]
    betweens: tuple[float, ...]
    tokens_a_second: float
    failed: int = 0


def read_request_log(path: Path) -> RequestLog:
    """The log. Raises SettingsError for a file that is none, with the line that is wrong."""
    try:
        if not path.is_file():
            raise SettingsError(f"--requests {path} is not a file", "Name a log of requests")
        if path.stat().st_size > MOST_BYTES:
            what = f"{path} has more than {MOST_BYTES >> 20} MiB"
            raise SettingsError(what, "Leave out the lines of requests before the recording")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read as text", FORM) from error
    bench = _parse_bench(text)
    if bench:
        return _read_bench(path, bench)
    documents = list(_parse(path, text))
    if not documents:
        raise SettingsError(f"{path} holds no request", FORM)
    # `vllm bench serve --append-result` adds a line a run to one file.
    last = documents[-1][1]
    if "ttfts" in last or "request_throughput" in last:
        return _read_generator(path, last)
    return _read_lines(path, documents)


def _parse(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line, object): each line is an object, or the whole text is one."""
    single = _parse_object(text)
    if single is not None:
        yield 1, single
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        document = _parse_object(line)
        if document is None:
            raise SettingsError(f"line {number} of {path} is not a JSON object", FORM)
        yield number, document


def _parse_object(text: str) -> Mapping[str, Any] | None:
    value = _parse_json(text)
    return value if isinstance(value, dict) else None


def _parse_json(text: str) -> object:
    """The value of a JSON text; None where it is none."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return None
    return value


def _parse_bench(text: str) -> list[Mapping[str, Any]]:
    """The requests of trtllm-bench; none where the text is something else."""
    value = _parse_json(text) if text.lstrip().startswith("[") else None
    if not isinstance(value, list):
        return []
    is_bench = all(isinstance(row, dict) and _BENCH_KEYS[0] in row for row in value)
    return value if is_bench else []


def _read_lines(path: Path, documents: Sequence[tuple[int, Mapping[str, Any]]]) -> RequestLog:
    answered = (document for document in documents if not _has_failed(document[1]))
    requests = [_read_request(path, *document) for document in answered]
    _refuse_repeated(path, requests)
    if not requests:
        raise SettingsError(f"{path}: no request has been answered", "Load the server longer")
    span = max(request.end for request in requests) - min(r.arrival for r in requests)
    return RequestLog(
        tuple(requests),
        tuple(request.wait_s for request in requests),
        tuple(request.between_s for request in requests if request.tokens > 1),
        sum(request.tokens for request in requests) / max(span, 1e-9),
        len(documents) - len(requests),
    )


def _refuse_repeated(path: Path, requests: Sequence[Request]) -> None:
    """Raise SettingsError: a request that is there twice would count twice in each number."""
    counts = Counter(request.id for request in requests)
    request_id, count = next(iter(counts.most_common(1)), ("", 0))
    if count > 1:
        what = f"{path}: id {request_id!r} is in {count} lines"
        raise SettingsError(what, "Leave one line a request, or give each an id of its own")


def _has_failed(line: Mapping[str, Any]) -> bool:
    return "first_token" in line and line["first_token"] is None


def _read_request(path: Path, number: int, line: Mapping[str, Any]) -> Request:
    if missing := [key for key in KEYS if key not in line]:
        raise SettingsError(f"line {number} of {path} lacks {', '.join(missing)}", FORM)
    arrival, first, end, tokens = (line[key] for key in KEYS[1:])
    if not all(map(_is_number, (arrival, first, end, tokens))):
        raise SettingsError(f"line {number} of {path}: a time or tokens is not a number", FORM)
    if not 1 <= tokens <= MOST_TOKENS:
        what = f"line {number} of {path}: tokens is {tokens}, of a request that was answered"
        raise SettingsError(what, FORM)
    if not EARLIEST <= arrival <= first <= end <= LATEST:
        what = f"line {number} of {path}: arrival, first_token and end do not rise, or are not "
        raise SettingsError(f"{what}in Unix seconds", FORM)
    return Request(str(line["id"]), float(arrival), float(first), float(end), int(tokens))


def _is_number(value: object) -> TypeGuard[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(float(str(value)))


def _read_seconds(value: object) -> float:
    """Raises ValueError for what is no time."""
    if not _is_number(value) or value < 0:
        raise ValueError(value)
    return float(value)


def _read_generator(path: Path, document: Mapping[str, Any]) -> RequestLog:
    """What a load generator says of its requests; of a file of several runs the last one."""
    if any(not isinstance(document.get(key), list) for key in _DETAILS):
        hint = "Add --save-detailed (vLLM, TensorRT-LLM) or --output-details (SGLang)"
        raise SettingsError(f"{path} has no times of single requests", hint)
    waits, betweens, lengths = (document[key] for key in _DETAILS)
    answered = [row for row, tokens in enumerate(lengths) if _is_number(tokens) and tokens > 0]
    try:
        first = [_read_seconds(waits[row]) for row in answered]
        later = [_read_seconds(gap) for row in answered for gap in betweens[row]]
        tokens = sum(int(lengths[row]) for row in answered)
        rate = tokens / _read_seconds(document["duration"])
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        hint = "Use the file as the load generator wrote it"
        raise SettingsError(f"{path}: its lists of times do not fit together", hint) from error
    if not answered:
        raise SettingsError(f"{path}: no request has been answered", "Load the server longer")
    return RequestLog((), tuple(first), tuple(later), rate, len(lengths) - len(answered))


def _read_bench(path: Path, requests: Sequence[Mapping[str, Any]]) -> RequestLog:
    """What trtllm-bench says of its requests."""
    try:
        rows = [tuple(_read_seconds(row[key]) for key in _BENCH_KEYS) for row in requests]
    except (KeyError, ValueError) as error:
        hint = "Run trtllm-bench with --streaming, and use the file of its --request_json"
        raise SettingsError(f"{path}: a request has no time of its first token", hint) from error
    if not all(_is_in_order(*row) for row in rows):
        what = f"{path}: times of a request do not rise, or it has no tokens"
        raise SettingsError(what, "Use the file as trtllm-bench wrote it")
    begin, end = min(start for start, *_ in rows), max(end for _, _, end, _ in rows)
    betweens = ((end - first) / (many - 1) for _, first, end, many in rows if many > 1)
    return RequestLog(
        (),
        tuple((first - start) / 1e9 for start, first, *_ in rows),
        tuple(between / 1e9 for between in betweens),
        sum(tokens for *_, tokens in rows) * 1e9 / max(end - begin, 1.0),
    )


def _is_in_order(start: float, first: float, end: float, tokens: float) -> bool:
    return start <= first <= end and 1 <= tokens <= MOST_TOKENS
