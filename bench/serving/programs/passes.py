"""The passes of a model that an engine launches: read a chunk, decode, draft and verify tokens.

Each is a CUDA graph for the sizes that are captured, otherwise a launch for each kernel.
"""

from collections.abc import Callable, Sequence

import torch
from model import CachedGpt

SLOTS, LONGEST, CHUNK, ROWS = 16, 4096, 256, 8
"""`ROWS` of numbers that a pass over a batch takes: slots, places, and what stands for sampling
parameters, which the greedy choice does not need."""
SIZES = (1, 2, 4, 8, 16)
DRAFTS, DRAFT_LAYERS = 3, 2
"""Tokens that the first layers draft, and all layers verify at once."""

Pass = Callable[[torch.Tensor], torch.Tensor]


class Passes:
    """`last`: the last token of each slot, on the device; the slot SLOTS takes what is padded."""

    def __init__(self, model: CachedGpt, device: str, *, speculative: bool) -> None:
        self.model, self.device = model, device
        self.last = torch.zeros(SLOTS + 1, dtype=torch.long, device=device)
        self.drafted = torch.zeros(SLOTS, DRAFTS + 1, dtype=torch.long, device=device)
        self.graphs = dict[tuple[Pass, int], tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]]()
        if device == "cpu":
            return
        self._capture(self.read, CHUNK, (4, CHUNK))
        for size in SIZES:
            self._capture(self.decode, size, (ROWS, size))
            if speculative:
                self._capture(self.draft, size, (ROWS, size))
                self._capture(self.verify, size, (ROWS, size))

    @torch.no_grad()
    def _capture(self, run: Pass, size: int, shape: tuple[int, int]) -> None:
        inputs = torch.zeros(shape, dtype=torch.long, device=self.device)
        inputs[0] = SLOTS
        for _ in range(2):
            run(inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chosen = run(inputs)
        self.graphs[run, size] = graph, [inputs, chosen]

    @torch.no_grad()
    def run(
        self, work: Pass, size: int, rows: Sequence[Sequence[int]], *, one_by_one: bool = False
    ) -> torch.Tensor:
        """Run a pass with these rows of numbers; `size` 0 launches each kernel."""
        if not size or (work, size) not in self.graphs:
            inputs = torch.empty(len(rows), len(rows[0]), dtype=torch.long, device=self.device)
            self._fill(inputs, rows, one_by_one)
            return work(inputs)
        graph, (inputs, chosen) = self.graphs[work, size]
        self._fill(inputs, rows, one_by_one)
        graph.replay()
        return chosen

    def _fill(self, inputs: torch.Tensor, rows: Sequence[Sequence[int]], one_by_one: bool) -> None:
        if one_by_one:
            for place, row in zip(inputs, rows, strict=True):
                for cell, value in zip(place, row, strict=True):
                    cell.copy_(torch.tensor(value))
        else:
            packed = torch.tensor(rows, pin_memory=self.device != "cpu")
            inputs.copy_(packed, non_blocking=True)

    def read(self, inputs: torch.Tensor) -> torch.Tensor:
        """Read a chunk of a prompt: rows of its slot, tokens, places, and the last one's number."""
        slot, tokens, places, number = inputs
        x = self.model(tokens[None], slot[:1], places[None])
        chosen = self.model.choose(x[0].index_select(0, number[:1]))
        self.last[slot[:1]] = chosen
        return chosen

    def decode(self, inputs: torch.Tensor) -> torch.Tensor:
        """The next token of each slot."""
        slots, places = inputs[:2]
        x = self.model(self.last[slots][:, None], slots, places[:, None])
        chosen = self.model.choose(x[:, -1])
        self.last[slots] = chosen
        return chosen

    def draft(self, inputs: torch.Tensor) -> torch.Tensor:
        slots, places = inputs[:2]
        drafted = self.drafted[: len(slots)]
        drafted[:, 0] = self.last[slots]
        for number in range(DRAFTS):
            token = drafted[:, number : number + 1]
            x = self.model(token, slots, places[:, None] + number, DRAFT_LAYERS)
            drafted[:, number + 1] = self.model.choose(x[:, -1])
        return drafted

    def verify(self, inputs: torch.Tensor) -> torch.Tensor:
        """The number of drafted tokens that hold, and what is chosen after each, by slot."""
        slots, places = inputs[:2]
        drafted = self.drafted[: len(slots)]
        steps = torch.arange(DRAFTS + 1, device=self.device)
        chosen = self.model.choose(self.model(drafted, slots, places[:, None] + steps))
        right = (drafted[:, 1:] == chosen[:, :-1]).long().cumprod(1).sum(1, keepdim=True)
        self.last[slots] = chosen.gather(1, right)[:, 0]
        return torch.cat((right, chosen), 1)
