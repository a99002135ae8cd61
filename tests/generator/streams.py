"""Synthetic programs of one rank whose kernels run on several streams, drawn from a seed."""

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.store.database import Database
from tests.generator.gains import Gain, compare_gain
from tests.generator.program import Plant, fix_plant
from tests.reading import diagnose_reports
from tests.unit.analysis.synthetic import STREAM, US, Rank, Recording

FREE, EXCLUSIVE, SLOWED = "free", "exclusive", "slowed"
"""What kernels of two streams do at one time: run as alone, wait for each other (each fills the
GPU), or slow each other."""
PLANTS = ("nothing", "loader", "every_nth", "blocking", "launch", "pageable")
SIDE = 20
"""The first stream beside the main one."""


@dataclass(frozen=True)
class StreamProgram:
    """A step has `layers`; in each the main stream runs `main_us`, and each of `sides` streams a
    kernel of `side_us` after its begin, for which the main stream waits in the next layer but
    `lag`. `sharing`: of the constants above; SLOWED kernels take `stretch` times as long.
    """

    seed: int
    steps: int
    layers: int
    main_us: tuple[float, ...]
    side_us: float
    sides: int
    lag: int
    sharing: str
    stretch: float
    host_us: float
    jitter: float
    reads_loss: bool
    plant: Plant


def draw_streams(seed: int) -> StreamProgram:
    draw = random.Random(f"streams {seed}")
    main = tuple(draw.uniform(40, 200) for _ in range(draw.randint(1, 3)))
    size = draw.choice((draw.uniform(0.05, 0.15), draw.uniform(0.15, 0.6)))
    name = draw.choice(PLANTS)
    every = draw.randint(2, 5) if name == "every_nth" else 1
    return StreamProgram(
        seed=seed,
        steps=30,
        layers=draw.randint(6, 16),
        main_us=main,
        side_us=sum(main) * draw.uniform(0.2, 1.2),
        sides=draw.choice((1, 1, 2, 3)),
        lag=draw.randint(0, 2),
        sharing=draw.choice((FREE, EXCLUSIVE, SLOWED)),
        stretch=draw.uniform(1.1, 1.8),
        host_us=draw.uniform(2, 6),
        jitter=draw.choice((0.0, 0.02)),
        reads_loss=draw.random() < 0.4,
        plant=Plant(name, (0,), size * every, every),
    )


@dataclass
class _Gpu:
    """The host and the GPU of a program. `ends`: when each stream has done what was launched on it
    and what it waits for; `kernels`: start and end of the kernels of all streams.
    """

    program: StreamProgram
    rank: Rank
    ends: dict[int, int] = field(default_factory=dict)
    kernels: list[tuple[int, int, int]] = field(default_factory=list)
    draw: random.Random = field(default_factory=random.Random)

    def kernel(self, stream: int, length_us: float, name: str) -> None:
        program, rank = self.program, self.rank
        factor = max(0.5, self.draw.gauss(1.0, program.jitter))
        rank.work(program.host_us)
        launch_time = rank.now
        call = rank.call("cudaLaunchKernel_v7000", rank.launch_us)
        start = max(self.ends.get(stream, 0) + US, launch_time + 4 * US)
        others = [kernel for kernel in self.kernels[-40:] if kernel[0] != stream]
        if program.sharing == EXCLUSIVE:
            start = max([start, *(end + US for _, _, end in others)])
        end = start + int(length_us * factor * US)
        if program.sharing == SLOWED:
            beside = sum(max(0, min(end, other) - max(start, begin)) for _, begin, other in others)
            end += int((program.stretch - 1) * min(beside, end - start))
        self.kernels.append((stream, start, end))
        self.ends[stream] = end
        code = rank.recording.name(name)
        place = (rank.rank, stream, call, rank.process, code, code)
        rank.recording.add("CUPTI_ACTIVITY_KIND_KERNEL", start, end, *place)

    def order(self, first: int, then: int) -> None:
        self.rank.order_streams(first, then)
        self.ends[then] = max(self.ends.get(then, 0), self.ends.get(first, 0))

    def copy(self, megabytes: float, *, pageable: bool = False) -> None:
        self._lend(lambda: self.rank.copy(megabytes, 10 if pageable else 50, pageable))

    def synchronize(self) -> None:
        self._lend(self.rank.synchronize)

    def _lend(self, call: Callable[[], None]) -> None:
        """Let the rank do something on the main stream."""
        self.rank.free = self.ends.get(STREAM, self.rank.now)
        call()
        self.ends[STREAM] = self.rank.free


def run_streams(program: StreamProgram) -> tuple[Recording, list[int]]:
    """The report, and when the work of each step has ended."""
    recording = Recording()
    recording.add("TARGET_INFO_GPU", 0, "NVIDIA H200")
    recording.add("TARGET_INFO_CUDA_DEVICE", 0, 0, 100)
    rank = Rank(recording, 0, now=50_000_000, events=True)
    gpu = _Gpu(program, rank, draw=random.Random(program.seed))
    ends = list[int]()
    for step in range(program.steps):
        start = rank.now
        _run_step(gpu, step)
        rank.range("train_step", start)
        ends.append(max(gpu.ends.values()))
    gpu.synchronize()
    return recording, ends


def _run_step(gpu: _Gpu, step: int) -> None:
    program, rank, plant = gpu.program, gpu.rank, gpu.program.plant
    work = program.layers * (sum(program.main_us) + program.side_us / 2)
    rank.work(20)
    if plant.name in ("loader", "every_nth") and step % plant.every == 0:
        rank.work(plant.size * work + plant.every * work)
    gpu.copy(0.5)
    if plant.name in ("pageable", "pinned"):
        gpu.copy(plant.size * work * 0.01, pageable=plant.name == "pageable")
    for layer in range(program.layers):
        _run_layer(gpu, layer, work)
    for side in range(program.sides):
        gpu.order(SIDE + side, STREAM)
    gpu.kernel(STREAM, 100, "multi_tensor_apply_kernel<FusedAdamMath>")
    if program.reads_loss:
        gpu.synchronize()


def _run_layer(gpu: _Gpu, layer: int, work: float) -> None:
    program, plant = gpu.program, gpu.program.plant
    launches = program.layers * (len(program.main_us) + program.sides)
    for side in range(program.sides):
        gpu.order(STREAM, SIDE + side)
        gpu.kernel(SIDE + side, program.side_us / program.sides, f"side_{side}")
    for number, length in enumerate(program.main_us):
        if plant.name == "launch":
            gpu.rank.work((1 + plant.size) * work / launches)
        gpu.kernel(STREAM, length, f"gemm_{number}")
    if layer >= program.lag:
        for side in range(program.sides):
            gpu.order(SIDE + side, STREAM)
    if plant.name in ("blocking", "unblocked"):
        if plant.name == "blocking":
            gpu.synchronize()
        gpu.rank.work(plant.size * work / (2 * program.layers))


def judge_streams(seed: int) -> tuple[StreamProgram, Gain, Diagnosis]:
    """The gain of what is planted, by the report and by the twin with the fix."""
    program = draw_streams(seed)
    fixed = replace(program, plant=fix_plant(program.plant))
    recording, ends = run_streams(program)
    with tempfile.TemporaryDirectory() as folder:
        path = recording.save(Path(folder) / "rank0.host0.sqlite")
        with Database.open(path) as database:
            diagnosis = diagnose_reports(database)
    step, after = _mean_step(ends), _mean_step(run_streams(fixed)[1])
    return program, compare_gain(seed, program.plant, diagnosis, step, step - after), diagnosis


def _mean_step(ends: Sequence[int]) -> float:
    return (ends[-1] - ends[4]) / (len(ends) - 5) / 1e6
