"""A training with the marks of --annotate, drawn from a seed, and the truth about its kernels.

Modules nest to random depths; the backward pass runs on a thread of autograd, which recomputes some
modules; kernels also run outside of modules; a part may be a replayed CUDA graph.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.analysis.synthetic import US, Rank, all_reduce, ranks_of

CLASSES = ("Linear", "Attention", "LayerNorm", "Block", "MLP")
AUTOGRAD = 7
KERNELS = ("gemm", "softmax_kernel", "elementwise_kernel", "triton_poi_fused_add_0")
Key = tuple[
    str, str
]  # (a module's name, "" for none; forward, backward, optimizer, unattributed …)


@dataclass(frozen=True)
class Part:
    """A module and the modules in it."""

    name: str
    kind: str
    inner: "tuple[Part, ...]" = ()

    @property
    def text(self) -> str:
        return f"{self.name}|{self.kind}|model.py:{10 * len(self.kind)}"


@dataclass
class MarkedRun:
    """Ranks that train a random model. `truth`: ns of kernels by (module, work) over all ranks;
    `capture_seen`: whether the capture of its graphs is in the report."""

    seed: int
    draw: random.Random = field(init=False)
    truth: Counter[Key] = field(default_factory=Counter)
    node: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.capture_seen = self.draw.random() < 0.5
        self.model = self._draw_part("Model", 0)
        self.ranks = ranks_of(self.draw.choice((1, 2)))
        self.graphs = {
            rank.rank: self._capture(rank) if self.draw.random() < 0.3 else ()
            for rank in self.ranks
        }
        for step in range(self.draw.randint(4, 6)):
            self._run_step(step)

    def save(self, folder: Path) -> Path:
        return self.ranks[0].recording.save(folder / "marked.sqlite")

    def _draw_part(self, name: str, depth: int) -> Part:
        kind = self.draw.choice(CLASSES) if depth else "Model"
        count = self.draw.randint(0, 3) if depth < 3 else 0
        prefix = "" if depth == 0 else f"{name}."
        return Part(
            name, kind, tuple(self._draw_part(f"{prefix}{n}", depth + 1) for n in range(count))
        )

    def _launch(self, rank: Rank, key: Key, length: float, node: int | None = None) -> None:
        rank.kernel(length, self.draw.choice(KERNELS), node)
        self.truth[key] += int(length * US)

    def _kernels(self, rank: Rank, key: Key, most: int = 2) -> None:
        for _ in range(self.draw.randint(0, most)):
            rank.work(self.draw.uniform(0, 20))
            self._launch(rank, key, self.draw.uniform(1, 50))

    def _forward(self, rank: Rank, part: Part) -> None:
        start = rank.now
        rank.work(0.1)
        self._kernels(rank, (part.name, "forward"))
        for child in part.inner:
            self._forward(rank, child)
            self._kernels(rank, (part.name, "forward"))
        rank.work(0.1)
        rank.mark(f"forward {part.text}", start)

    def _backward(self, rank: Rank, part: Part) -> None:
        for child in reversed(part.inner):
            self._backward(rank, child)
        if self.draw.random() < 0.2:
            self._forward(rank, part)  # activation checkpointing recomputes
        start = rank.now
        rank.work(0.1)
        self._kernels(rank, (part.name, "backward"))
        if self.draw.random() < 0.5:
            self._accumulate(rank, part)
            self._kernels(rank, (part.name, "backward"))
        rank.work(0.1)
        rank.mark(f"backward {part.text}", start)
        rank.work(0.5)
        self._kernels(rank, ("", "unattributed"), 1)

    def _accumulate(self, rank: Rank, part: Part) -> None:
        rank.work(0.1)
        start = rank.now
        rank.work(0.1)
        self._kernels(rank, (part.name, "accumulate"))
        rank.work(0.1)
        rank.mark(f"accumulate {part.text}", start)

    def _capture(self, rank: Rank) -> tuple[int, ...]:
        """Make nodes under the marks of a module, and their clones."""
        nodes = []
        start = rank.now
        for _ in range(3):
            self.node += 2
            rank.work(1)
            row = (rank.now, rank.thread)
            if self.capture_seen:
                rank.recording.add("CUDA_GRAPH_NODE_EVENTS", *row, self.node, None)
            nodes.append(self.node + 1)
        rank.work(1)
        rank.mark("forward captured|Graphed|graph.py:1", start)
        for node in nodes if self.capture_seen else ():
            rank.recording.add("CUDA_GRAPH_NODE_EVENTS", rank.now, rank.thread, node, None)
            rank.recording.add("CUDA_GRAPH_NODE_EVENTS", rank.now, rank.thread, node, node - 1)
        return tuple(nodes)

    def _run_step(self, step: int) -> None:
        starts = [rank.now for rank in self.ranks]
        for rank in self.ranks:
            start = rank.now
            rank.work(self.draw.uniform(1, 100))
            rank.mark("data", start)
            start = rank.now
            rank.work(0.1)
            self._forward(rank, self.model)
            rank.work(0.1)
            rank.mark("forward", start)
            self._kernels(rank, ("", "unattributed"))
            for node in self.graphs[rank.rank]:
                owner = ("captured", "forward") if self.capture_seen else ("", "unattributed")
                self._launch(rank, owner, 5, node)
            start, rank.lane = rank.now, AUTOGRAD
            self._backward(rank, self.model)
            rank.lane = 0
            rank.mark("backward", start)
        if len(self.ranks) > 1:
            self._reduce()
        for rank, start in zip(self.ranks, starts, strict=True):
            begin = rank.now
            rank.work(1)
            self._kernels(rank, ("(optimizer AdamW)", "optimizer"), 5)
            rank.work(1)
            rank.mark("optimizer AdamW", begin)
            rank.work(1)
            rank.mark("step", start, step)

    def _reduce(self) -> None:
        rows = self.ranks[0].recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
        before = len(rows)
        all_reduce(self.ranks, 20)
        times = (int(str(row[1])) - int(str(row[0])) for row in rows[before:])
        self.truth["(all_reduce)", "communication"] += sum(times)
