"""Training runs with one thing wrong, as synthetic reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.analysis.synthetic import Rank, Recording, all_reduce, ranks_of

Act = Callable[[Rank], None]


def nothing(_rank: Rank) -> None:
    pass


@dataclass(frozen=True)
class Training:
    """Data-parallel steps: data, forward, backward with one all-reduce, optimizer.

    `before` (once), `data`, `layer` and `after` are done by every rank, `only` by the given ones
    in their data phase. The defaults are healthy: kernels of 200 us, launched far ahead.
    """

    ranks: int = 4
    steps: int = 12
    layers: int = 40
    kernel_us: float = 200.0
    host_us: float = 4.0
    transfer_us: float = 150.0
    message: int = 0
    step_range: str = "step"
    before: Act = nothing
    data: Act = nothing
    layer: Act = nothing
    after: Act = nothing
    only: Mapping[int, Act] = field(default_factory=dict)

    def record(self) -> Recording:
        ranks = ranks_of(self.ranks)
        for rank in ranks:
            self.before(rank)
        for _ in range(self.steps):
            self._step(ranks)
        for rank in ranks:
            rank.synchronize()
        return ranks[0].recording

    def save(self, folder: Path) -> Path:
        return self.record().save(folder / "run.sqlite")

    def _step(self, ranks: list[Rank]) -> None:
        begin = [rank.now for rank in ranks]
        for rank in ranks:
            self._forward(rank)
        if len(ranks) > 1:
            all_reduce(ranks, self.transfer_us, self.message)
        for rank, start in zip(ranks, begin, strict=True):
            rank.kernel(self.kernel_us, "adam")
            self.after(rank)
            if self.step_range:
                rank.range(self.step_range, start)

    def _forward(self, rank: Rank) -> None:
        start = rank.now
        self.data(rank)
        self.only.get(rank.rank, nothing)(rank)
        rank.work(10)
        rank.range("data", start)
        for _ in range(self.layers):
            rank.work(self.host_us)
            rank.kernel(self.kernel_us)
            self.layer(rank)
