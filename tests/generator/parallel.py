"""Synthetic programs over groups of ranks, drawn from a seed: pipelines, experts, tensors."""

import random
from dataclasses import dataclass, replace

from tests.generator.program import Plant

PIPELINE, EXPERTS, TENSOR = "pipeline", "experts", "tensor"
# (stages, tensor-parallel ranks, data-parallel replicas)
PIPELINES = (
    *((2, 1, 1), (4, 1, 1), (4, 1, 1), (8, 1, 1)),
    *((2, 2, 1), (4, 2, 1), (2, 1, 2), (4, 1, 2), (2, 2, 2)),
)
TENSORS = ((1, 2, 1), (1, 4, 1), (1, 2, 2), (1, 4, 2), (1, 2, 4))
PLANTS = {PIPELINE: "uneven_stage", EXPERTS: "uneven_experts", TENSOR: "slow_gpu"}


@dataclass(frozen=True)
class ParallelProgram:
    """A training over groups of ranks; times in us.

    `shape`: stages, tensor-parallel ranks, replicas; the first number counts the experts' ranks.
    A microbatch takes `kernels` kernels a layer in `layers` layers of each stage, twice as long
    backward. `interleaved`: one forward, one backward (1F1B), else all forward first (GPipe).
    `windowed`: the part of the run that is recorded, None for all.
    """

    seed: int
    kind: str
    shape: tuple[int, int, int]
    steps: int
    layers: int
    kernels: tuple[float, ...]
    microbatches: int
    interleaved: bool
    transfer_us: float
    jitter: float
    marks: str
    copies_batch: bool
    separate_reports: bool
    slow_steps: int
    window: tuple[float, float] | None
    plant: Plant
    saves: bool = False
    read_share: float = 0.0

    @property
    def ranks(self) -> int:
        stages, tensor, replicas = self.shape
        return stages * tensor * replicas

    @property
    def plants(self) -> tuple[Plant, ...]:
        return () if self.plant.name == "nothing" else (self.plant,)

    def without(self, plant: Plant) -> "ParallelProgram":
        return replace(self, plant=self.plant if self.plant != plant else Plant())

    def stage_of(self, rank: int) -> int:
        """The ranks of a stage follow each other, those of a tensor group among them."""
        return rank // (self.shape[1] * self.shape[2])


def draw_parallel(seed: int) -> ParallelProgram:
    """A program that depends on the seed alone. Half of them have nothing planted."""
    draw = random.Random(f"parallel {seed}")
    kind = draw.choice((PIPELINE, PIPELINE, EXPERTS, TENSOR))
    shape = {PIPELINE: PIPELINES, EXPERTS: ((2, 1, 1), (4, 1, 1), (8, 1, 1)), TENSOR: TENSORS}[kind]
    mean = draw.uniform(60, 300)
    program = ParallelProgram(
        seed=seed,
        kind=kind,
        shape=draw.choice(shape),
        steps=draw.randint(9, 16),
        layers=draw.randint(1, 3) if kind == PIPELINE else draw.randint(3, 6),
        kernels=tuple(mean * draw.uniform(0.5, 1.5) for _ in range(draw.randint(2, 4))),
        microbatches=draw.choice((2, 4, 8, 12)),
        interleaved=draw.random() < 0.5,
        transfer_us=draw.uniform(5, 15),
        jitter=draw.choice((0.0, 0.005, 0.02)),
        marks=draw.choice(("none", "step")),
        copies_batch=draw.random() < 0.5,
        separate_reports=draw.random() < 0.5,
        slow_steps=draw.randint(0, 2),
        window=draw.choice((None, None, (draw.uniform(0, 0.2), draw.uniform(0.7, 1)))),
        plant=Plant(),
    )
    return replace(program, plant=_draw_plant(draw, program)) if draw.random() < 0.7 else program


def _draw_plant(draw: random.Random, program: ParallelProgram) -> Plant:
    size, ranks = draw.choice((draw.uniform(0.1, 0.5), draw.uniform(0.5, 3))), range(program.ranks)
    if program.kind == PIPELINE:
        stage = draw.randrange(program.shape[0])
        owners = tuple(rank for rank in ranks if program.stage_of(rank) == stage)
    else:
        two = program.kind == EXPERTS and program.ranks > 2 and draw.random() < 0.5
        owners = tuple(sorted(draw.sample(ranks, 2 if two else 1)))
    return Plant(PLANTS[program.kind], owners, size)
