"""Run a synthetic program on modelled hosts and GPUs: its reports, and the truth about them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.generator.parallel import ParallelProgram
from tests.generator.phases import evaluate, evaluates, save_weights
from tests.generator.program import Plant, Program
from tests.generator.reports import name_reports
from tests.unit.analysis.synthetic import (
    Rank,
    Recording,
    Row,
    all_reduce,
    join_communication,
    ranks_of,
)

KERNELS, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
OPERATIONS = (KERNELS, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
NVTX = "NVTX_EVENTS"


@dataclass(frozen=True)
class Truth:
    """By rank and step, ns of one clock for all: when the host began the step and when its first
    operation started on the GPU. `end`: when the last step's work was done, by rank."""

    host: tuple[tuple[int, ...], ...]
    gpu: tuple[tuple[int, ...], ...]
    end: tuple[int, ...]

    def step_ms(self, first: int) -> float:
        """The mean time of a step from number `first` on, to the last step's begin."""
        spans = [(begins[-1] - begins[first]) / (len(begins) - 1 - first) for begins in self.gpu]
        return max(spans) / 1e6


@dataclass
class Machine:
    """The ranks while they run, their random spread, and when each step began."""

    program: Program
    ranks: list[Rank]
    draws: list[random.Random] = field(default_factory=list)
    host: list[list[int]] = field(default_factory=list)
    first: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A draw a rank: what one rank does changes nothing for the others, planted or not.
        self.draws = [random.Random(f"{self.program.seed}.{rank.rank}") for rank in self.ranks]
        self.host = [[] for _ in self.ranks]
        self.first = [[] for _ in self.ranks]

    def plant(self, rank: Rank, *names: str) -> Plant | None:
        """What of these names is planted on the rank."""
        plants = self.program.plants
        return next(
            (plant for plant in plants if plant.name in names and rank.rank in plant.ranks), None
        )

    def spread(self, rank: Rank) -> float:
        """A factor near 1."""
        return max(0.5, self.draws[rank.rank].gauss(1.0, self.program.jitter))

    def kernel(self, rank: Rank, name: str, time: float) -> None:
        rank.work(self.program.host_us * self.spread(rank))
        factor = self.spread(rank)
        if plant := self.plant(rank, "slow_kernels"):
            factor *= 1 + plant.size
        rank.kernel(time * factor, name)


@dataclass(frozen=True)
class Run:
    """`recordings` by file name."""

    program: Program | ParallelProgram
    recordings: dict[str, Recording]
    truth: Truth

    def save(self, folder: Path) -> list[Path]:
        return [recording.save(folder / name) for name, recording in self.recordings.items()]


def simulate(program: Program) -> Run:
    """The program's reports and its truth; the same for the same program."""
    machine = Machine(program, _new_ranks(program))
    _start_up(machine)
    for step in range(program.steps):
        _run_step(machine, step)
    end = tuple(max(rank.free, rank.talked) for rank in machine.ranks)
    for rank in machine.ranks:
        rank.synchronize()
    truth = Truth(frozen(machine.host), frozen(machine.first), end)
    keep_between(program.window, machine.ranks, truth)
    return Run(program, name_reports(machine.ranks, program.hosts, program.clock_error_us), truth)


def frozen(lists: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(numbers) for numbers in lists)


def _new_ranks(program: Program) -> list[Rank]:
    """Ranks of one recording, or of one each."""
    ranks = ranks_of(program.ranks)
    if program.separate_reports or program.hosts > 1:
        ranks = [_alone(rank) for rank in ranks]
    for rank in ranks:
        rank.depth, rank.events = program.depth, True
        rank.now += 50_000_000
        rank.free = rank.now
    return ranks


def _alone(rank: Rank) -> Rank:
    recording = Recording()
    recording.add("TARGET_INFO_GPU", rank.rank, "NVIDIA H200")
    recording.add("TARGET_INFO_CUDA_DEVICE", rank.rank, rank.rank, 100 + rank.rank)
    return Rank(recording, rank.rank, now=rank.now)


def _start_up(machine: Machine) -> None:
    """Libraries are loaded, weights are copied and initialised; ranks end together."""
    program = machine.program
    if not program.startup_us:
        return
    for rank in machine.ranks:
        for number in range(20):
            rank.call("cuLibraryLoadData", program.startup_us / 25 * machine.spread(rank))
            rank.copy(1.0, pageable=True)
            rank.kernel(5 + number, f"void at::native::distribution_kernel<{number % 7}>(int)")
    if program.ranks > 1:
        all_reduce(machine.ranks, 1000)
    for rank in machine.ranks:
        rank.synchronize()


def _run_step(machine: Machine, step: int) -> None:
    program, ranks = machine.program, machine.ranks
    operations = [count_operations(rank) for rank in ranks]
    for rank in ranks:
        machine.host[rank.rank].append(rank.now)
        if evaluates(program, step, first=True):
            evaluate(machine, rank)
        _fetch_batch(machine, rank, step)
    for micro in range(program.accumulation):
        _micro_batch(machine, step, last=micro == program.accumulation - 1)
    for rank in ranks:
        _optimize(machine, rank, step)
        if program.marks != "none":
            rank.range("train_step", machine.host[rank.rank][-1])
        if evaluates(program, step, first=False):
            evaluate(machine, rank)
    if program.phases.save_every and (step + 1) % program.phases.save_every == 0:
        save_weights(machine, ranks[0])
    for rank, counts in zip(ranks, operations, strict=True):
        machine.first[rank.rank].append(find_first_start(rank, counts))


def count_operations(rank: Rank) -> dict[str, int]:
    return {table: len(rank.recording.rows[table]) for table in OPERATIONS}


def find_first_start(rank: Rank, counts: dict[str, int]) -> int:
    """When the rank's first operation since these counts started."""
    return min(
        int(str(row[0]))
        for table, count in counts.items()
        for row in rank.recording.rows[table][count:]
        if row[5] == rank.process
    )


def _fetch_batch(machine: Machine, rank: Rank, step: int) -> None:
    program, start = machine.program, rank.now
    rank.work(10)
    for name in ("slow_host", "loader", "every_nth"):
        if (plant := machine.plant(rank, name)) and step % plant.every == 0:
            rank.work(_host_delay_us(program, plant))
    if plant := machine.plant(rank, "slow_copy"):
        rank.copy(plant.size * program.step_us * 0.05, gb_per_s=50)
    rank.copy(0.5, gb_per_s=50)
    if plant := machine.plant(rank, "pageable"):
        rank.copy(plant.size * program.step_us * 0.01, gb_per_s=10, pageable=True)
    if plant := machine.plant(rank, "pinned"):
        rank.copy(plant.size * program.step_us * 0.01, gb_per_s=50)
    if program.marks == "phases":
        rank.range("data", start)


def _host_delay_us(program: Program, plant: Plant) -> float:
    """What costs the planted part of the step, after the lead that the host has over the GPU."""
    host = program.launches * (program.host_us + 6.0)
    lead = 0.0 if program.item_each_step else max(0.0, program.step_us - host)
    return plant.every * lead + plant.size * program.step_us


def _micro_batch(machine: Machine, step: int, last: bool) -> None:
    program, ranks = machine.program, machine.ranks
    for rank in ranks:
        start = rank.now
        for _ in range(program.layers):
            _layer(machine, rank, program.forward, step)
        if program.marks == "phases":
            rank.range("forward", start)
    begins = [rank.now for rank in ranks]
    for layer in reversed(range(program.layers)):
        for rank in ranks:
            _layer(machine, rank, program.backward, step)
        if last and program.ranks > 1 and layer % -(-program.layers // program.buckets) == 0:
            _reduce_bucket(machine)
    for rank, start in zip(ranks, begins, strict=True):
        if program.marks == "phases":
            rank.range("backward", start)


def _layer(machine: Machine, rank: Rank, kernels: tuple[tuple[str, float], ...], step: int) -> None:
    program = machine.program
    for name, time in kernels:
        if step < program.slow_steps:
            rank.work(1000 / (step + 1))  # compiling, autotuning
        if plant := machine.plant(rank, "launch"):
            # The host needs this longer for each launch than the GPU for the kernel.
            rank.work(max(0.0, program.step_us / program.launches - 6) + plant.size * time)
        machine.kernel(rank, name, time)
        if plant := machine.plant(rank, "more_kernels"):
            machine.kernel(rank, name, plant.size * time)
    if plant := machine.plant(rank, "blocking", "unblocked"):
        share = plant.size * program.step_us / (2 * program.layers * program.accumulation)
        if plant.name == "blocking":
            rank.synchronize()
        rank.work(share)


def _reduce_bucket(machine: Machine) -> None:
    program = machine.program
    transfer = program.transfer_us
    if plant := machine.plant(machine.ranks[0], "exposed"):
        transfer += plant.size * program.step_us / program.buckets
    all_reduce(machine.ranks, transfer, overlap=True)


def _optimize(machine: Machine, rank: Rank, step: int) -> None:
    program, start = machine.program, rank.now
    join_communication(rank)
    for name, time in program.optimizer:
        machine.kernel(rank, name, time)
    if program.marks == "phases":
        rank.range("optimizer", start)
    logs = program.log_every and step % program.log_every == program.log_every - 1
    if program.item_each_step or logs:
        rank.kernel(3, "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T3)")
        rank.item()


def keep_between(window: tuple[float, float] | None, ranks: Sequence[Rank], truth: Truth) -> None:
    """Keep what nsys does with --delay and --duration: calls in the window, and all their work.

    A window without a whole step is not cut: nothing in it tells layers from steps.
    """
    if window is None:
        return
    first, last = min(begins[0] for begins in truth.gpu), max(truth.end)
    start, end = (first + int(share * (last - first)) for share in window)
    if any(sum(start <= begin < end for begin in begins) < 2 for begins in truth.host):
        return
    for recording in {id(rank.recording): rank.recording for rank in ranks}.values():
        _cut_recording(recording, start, end)


def _cut_recording(recording: Recording, start: int, end: int) -> None:
    rows = recording.rows
    rows[RUNTIME] = [row for row in rows[RUNTIME] if start <= int(str(row[0])) < end]
    calls = {(int(str(row[3])) & ~0xFFFFFF, row[4]) for row in rows[RUNTIME]}
    for table in OPERATIONS:
        rows[table] = [row for row in rows[table] if (row[5], row[4]) in calls]
    rows[NVTX] = [_cut(row, end) for row in rows[NVTX] if start <= int(str(row[0])) < end]


def _cut(row: Row, end: int) -> Row:
    """A range that is open when the window closes has no end."""
    return row if int(str(row[1])) <= end else (row[0], None, *row[2:])
