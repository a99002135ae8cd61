"""An engine with continuous batching: it reads prompts in chunks beside the requests that decode.

Planted causes, of which one at a time is on:

    host_gap      2 ms of Python between two iterations
    detokenize    text is made on the thread that launches
    long_prefill  a whole prompt is read in one iteration
    graph_miss    batches above 2 have no CUDA graph
    small_copies  each number of a batch, its sampling parameters too, is copied to the GPU alone

Variants, which are no causes:

    eager         no CUDA graph at all
    speculative   tokens are drafted by the first layers, and verified
    healthy       the tokens of an iteration are read when the next one was launched
    elsewhere     prompts are read on another GPU: what comes here only decodes
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from model import CachedGpt
from passes import CHUNK, LONGEST, ROWS, SIZES, SLOTS, Passes

CAUSES = ("host_gap", "detokenize", "long_prefill", "graph_miss", "small_copies")
VARIANTS = ("eager", "speculative", "healthy", "elsewhere")
GAP_S, WORDS = 0.002, 2000


@dataclass
class Request:
    """A request: the tokens that came, and those that it gets. `issued`: tokens that are launched,
    of which the last one may not have come yet.
    """

    id: int
    prompt: list[int]
    wanted: int
    slot: int = -1
    read: int = 0
    issued: int = 0
    told: list[int] = field(default_factory=list)

    @property
    def reads(self) -> bool:
        return self.read < len(self.prompt)


@dataclass
class Launched:
    """An iteration: a tensor with the tokens of each pass, and whose they are."""

    chosen: list[torch.Tensor]
    requests: list[Request]
    is_drafted: bool = False
    done: torch.cuda.Event | None = None


@dataclass
class Engine:
    """`tell` gets the (id, token, is the last one) of each iteration. `marks`: iterations are
    marked as vLLM does it. `lines`: the engine's own log, in Unix time.
    """

    device: str
    tell: Callable[[list[tuple[int, int, bool]]], None]
    marks: bool = True
    layers: int = 8
    width: int = 512
    speculative: bool = False
    cause: str = ""
    lines: list[dict[str, object]] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    flying: Launched | None = None

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        model = CachedGpt(self.layers, self.width, SLOTS + 1, LONGEST)
        kind = torch.float32 if self.device == "cpu" else torch.bfloat16
        model = model.to(self.device, kind).eval()
        self.passes = Passes(model, self.device, speculative=self.speculative)
        self.free = list(range(SLOTS))

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def step(self) -> bool:
        """One iteration; False without a request."""
        self._admit()
        prompts = [request for request in self.running if request.reads][:1]
        decoding = [
            request
            for request in self.running
            if not request.reads and request.issued < request.wanted
        ]
        if not prompts and not decoding and self.flying is None:
            return False
        launched = self._launch(prompts, decoding) if prompts or decoding else None
        if self.cause == "healthy":
            launched, self.flying = self.flying, launched
            if launched:
                self._tell(launched, _read(launched))
        elif self.flying:  # of an overlapped turn before
            self._tell(self.flying, _read(self.flying))
            self.flying = None
        if self.cause == "host_gap":
            _work(GAP_S)
        return True

    def _admit(self) -> None:
        while self.waiting and self.free:
            request = self.waiting.pop(0)
            request.slot = self.free.pop()
            if self.cause == "elsewhere":
                request.read, request.issued, request.told = len(request.prompt), 1, [0]
                self.tell([(request.id, 0, request.wanted == 1)])
            self.running.append(request)

    def _launch(self, prompts: list[Request], decoding: list[Request]) -> Launched | None:
        """Launch an iteration; its tokens are read and told at once, unless they overlap."""
        sizes = [self._next_chunk(request) for request in prompts]
        with self._mark(len(prompts), sum(sizes), len(decoding)):
            launched = Launched([], [*prompts, *decoding], self.cause == "speculative")
            for request, size in zip(prompts, sizes, strict=True):
                launched.chosen.append(self._read_prompt(request, size))
            if decoding:
                launched.chosen.append(self._decode(decoding))
            launched.requests = [request for request in launched.requests if not request.reads]
            for request in launched.requests:
                request.issued += 1
            if self.cause == "healthy":
                return _copy_later(launched)
            tokens = _read(launched)
        self._tell(launched, tokens)
        return None

    def _next_chunk(self, request: Request) -> int:
        left = len(request.prompt) - request.read
        return left if self.cause == "long_prefill" else min(CHUNK, left)

    @contextmanager
    def _mark(self, prompts: int, size: int, decoding: int) -> Iterator[None]:
        name = f"execute_context_{prompts}({size})_generation_{decoding}({decoding})"
        start, marks = time.time(), self.marks and self.device != "cpu"
        if marks:
            torch.cuda.nvtx.range_push(name)
        yield
        if marks:
            torch.cuda.nvtx.range_pop()
        kind = "mixed" if prompts and decoding else "prefill" if prompts else "decode"
        line = {"start": start, "end": time.time(), "kind": kind, "batch": prompts + decoding}
        self.lines.append({**line, "cause": self.cause})

    def _read_prompt(self, request: Request, size: int) -> torch.Tensor:
        full = size if size > CHUNK or self.cause == "eager" else CHUNK
        tokens = request.prompt[request.read : request.read + size]
        places = list(range(request.read, request.read + size))
        padding = full - size
        rows = (
            [request.slot] * full,
            tokens + [0] * padding,
            places + [LONGEST - 1] * padding,
            [size - 1] * full,
        )
        request.read += size
        captured = CHUNK if full == CHUNK and self.cause != "eager" else 0
        return self.passes.run(self.passes.read, captured, rows)

    def _decode(self, decoding: list[Request]) -> torch.Tensor:
        many = len(decoding)
        captured = self.cause != "eager" and not (self.cause == "graph_miss" and many > 2)
        size = next(size for size in SIZES if size >= many) if captured else 0
        padding = max(size, many) - many
        rows = (
            [request.slot for request in decoding] + [SLOTS] * padding,
            [len(request.prompt) + request.issued - 1 for request in decoding] + [0] * padding,
            *([[0] * (many + padding)] * (ROWS - 2)),
        )
        if self.cause == "speculative":
            self.passes.run(self.passes.draft, size, rows)
            return self.passes.run(self.passes.verify, size, rows)[:many]
        copies = self.cause == "small_copies"
        return self.passes.run(self.passes.decode, size, rows, one_by_one=copies)[:many]

    def _tell(self, launched: Launched, tokens: list[list[int]]) -> None:
        told = list[tuple[int, int, bool]]()
        for request, chosen in zip(launched.requests, tokens, strict=True):
            for token in chosen[: request.wanted - len(request.told)]:
                request.told.append(token)
                told.append((request.id, token, len(request.told) == request.wanted))
                if self.cause == "detokenize":
                    make_text(token)
            if launched.is_drafted:
                request.issued = len(request.told)
            if len(request.told) == request.wanted:
                self.running.remove(request)
                self.free.append(request.slot)
        if told:
            self.tell(told)


def _copy_later(launched: Launched) -> Launched:
    """The iteration with a copy of its tokens after it, for which nobody waits yet."""
    tokens = torch.cat(launched.chosen)
    if tokens.device.type == "cpu":
        return Launched([tokens.clone()], launched.requests)
    host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
    host.copy_(tokens, non_blocking=True)
    done = torch.cuda.Event()
    done.record()
    return Launched([host], launched.requests, done=done)


def _read(launched: Launched) -> list[list[int]]:
    """Wait for the tokens; those of each request."""
    if launched.done:
        launched.done.synchronize()
    if not launched.is_drafted:
        rows = [[0, token] for token in torch.cat(launched.chosen).tolist()]
    else:
        parts = [chosen.tolist() for chosen in launched.chosen]
        rows = [row if isinstance(row, list) else [0, row] for part in parts for row in part]
    # A chunk that does not end its prompt has a token, too, which nobody wants.
    return [row[1 : 2 + row[0]] for row in rows[len(rows) - len(launched.requests) :]]


def make_text(token: int) -> str:
    """A stand-in for a detokenizer: some 0.2 ms of Python."""
    return " ".join(sorted(map(str, range(token % 7, WORDS)), key=len)).upper()


def _work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
