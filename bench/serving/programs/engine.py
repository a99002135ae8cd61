"""An engine with continuous batching: it reads prompts in chunks beside the requests that decode.

Planted causes, of which one at a time is on:

    host_gap      2 ms of Python between two iterations
    detokenize    text is made on the thread that launches
    long_prefill  a whole prompt is read in one iteration
    graph_miss    batches above 2 have no CUDA graph
    small_copies  each number is copied to the GPU alone
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from model import CachedGpt

CAUSES = ("host_gap", "detokenize", "long_prefill", "graph_miss", "small_copies")
SLOTS, LONGEST, CHUNK = 16, 1024, 64
SIZES = (1, 2, 4, 8, 16)
GAP_S, WORDS = 0.002, 400


@dataclass
class Request:
    """A request: the tokens that came, and those that it gets. `tell` is called with each."""

    prompt: list[int]
    wanted: int
    tell: Callable[[int], None]
    slot: int = -1
    read: int = 0
    told: list[int] = field(default_factory=list)


@dataclass
class Engine:
    """`marks`: iterations are marked as vLLM does it. `log`: a file with a line an iteration, in
    Unix time, which scores what is found in a recording.
    """

    device: str
    cause: str = ""
    marks: bool = True
    log: Path | None = None
    layers: int = 8
    width: int = 512
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        model = CachedGpt(self.layers, self.width, SLOTS + 1, LONGEST)
        kind = torch.float32 if self.device == "cpu" else torch.bfloat16
        self.model = model.to(self.device, kind).eval()
        self.free = list(range(SLOTS))
        self.graphs = dict[int, tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]]()
        self.lines = self.log.open("w", buffering=1) if self.log else None
        if self.device != "cpu":
            self._capture()

    def _capture(self) -> None:
        """Capture a decode step of each size; the cache's last slot takes what is padded."""
        for size in (size for size in SIZES if self.cause != "graph_miss" or size <= 2):
            inputs = [torch.zeros(size, 1, dtype=torch.long, device=self.device) for _ in range(2)]
            inputs.insert(1, torch.full((size,), SLOTS, device=self.device))
            with torch.no_grad():
                for _ in range(3):
                    self.model(*inputs)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    inputs.append(self.model(*inputs))
            self.graphs[size] = graph, inputs

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    @torch.no_grad()
    def step(self) -> bool:
        """One iteration; False without a request."""
        while self.waiting and self.free:
            self.running.append(self.waiting.pop(0))
            self.running[-1].slot = self.free.pop()
        if not self.running:
            return False
        prompts = [one for one in self.running if one.read < len(one.prompt)][:1]
        decoding = [one for one in self.running if one.read >= len(one.prompt)]
        sizes = [self._next_chunk(one) for one in prompts]
        with self._mark(len(prompts), sum(sizes), len(decoding)):
            chosen = [
                self._read_prompt(one, size) for one, size in zip(prompts, sizes, strict=True)
            ]
            chosen += [self._decode(decoding)] if decoding else []
            tokens = torch.cat(chosen).tolist()
        for one, token in zip([*prompts, *decoding], tokens, strict=True):
            self._tell(one, token)
        if self.cause == "host_gap":
            _work(GAP_S)
        return True

    def _next_chunk(self, one: Request) -> int:
        left = len(one.prompt) - one.read
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
        if self.lines:
            kind = "mixed" if prompts and decoding else "prefill" if prompts else "decode"
            batch = prompts + decoding
            line = {"start": start, "end": time.time(), "kind": kind, "batch": batch}
            self.lines.write(json.dumps(line) + "\n")

    def _read_prompt(self, one: Request, size: int) -> torch.Tensor:
        places = torch.arange(one.read, one.read + size)[None]
        tokens = torch.tensor([one.prompt[one.read : one.read + size]])
        one.read += size
        slots = torch.tensor([one.slot])
        return self.model(*(part.to(self.device) for part in (tokens, slots, places)))

    def _decode(self, decoding: list[Request]) -> torch.Tensor:
        columns = (
            [one.told[-1] for one in decoding],
            [one.slot for one in decoding],
            [len(one.prompt) + len(one.told) - 1 for one in decoding],
        )
        size = next((size for size in self.graphs if size >= len(decoding)), 0)
        if not size:
            tokens, slots, places = (self._copy(column) for column in columns)
            return self.model(tokens[:, None], slots, places[:, None])
        graph, (tokens, slots, places, chosen) = self.graphs[size]
        slots.fill_(SLOTS)
        for target, column in zip((tokens, slots, places), columns, strict=True):
            target.view(-1)[: len(decoding)].copy_(self._copy(column))
        graph.replay()
        return chosen[: len(decoding)]

    def _copy(self, column: list[int]) -> torch.Tensor:
        if self.cause == "small_copies":
            return torch.cat([torch.tensor([value]).to(self.device) for value in column])
        return torch.tensor(column).to(self.device)

    def _tell(self, one: Request, token: int) -> None:
        if one.read < len(one.prompt):
            return
        one.told.append(token)
        if self.cause == "detokenize":
            " ".join(sorted(map(str, range(WORDS)), key=len)).upper()
        one.tell(token)
        if len(one.told) == one.wanted:
            self.running.remove(one)
            self.free.append(one.slot)


def _work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
