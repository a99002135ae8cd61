"""Synthetic programs of many shapes, drawn from a seed, with at most one planted cause."""

import random
from dataclasses import dataclass, replace

FORWARD = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_bias",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluFunctor>(int, T2, T3)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(float*)",
    "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel>(int, T3)",
    "triton_poi_fused_add_mul_0",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4>(T1::Params)",
)
BACKWARD = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackward>(int, T2, T3)",
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float, float>(int)",
    "void flash::flash_bwd_dq_dk_dv_loop_kernel<Flash_bwd_kernel_traits<128>>(Flash_bwd_params)",
    "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true>(float*)",
    "triton_red_fused_sum_1",
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float>>(T3)",
)
OPTIMIZER = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMath>(T1)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<LpNormFunctor>(T1)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
)
MARKS = ("none", "step", "phases")
"""NVTX ranges: none, one around each step, or also data, forward, backward and optimizer."""
PLANTS = (
    "nothing",
    "slow_kernels",
    "more_kernels",
    "slow_host",
    "slow_copy",
    "loader",
    "blocking",
    "pageable",
    "launch",
    "exposed",
    "every_nth",
)
ALONE = ("slow_kernels", "more_kernels", "slow_host", "slow_copy")
"""What one rank has, or two of eight."""
SECOND = ("blocking", "pageable", "exposed", "launch", "loader")
FIXED = {"blocking": "unblocked", "pageable": "pinned"}
"""What is left of a plant when the cause alone is gone: the host's work after a call that blocks,
a copy from pinned memory."""
FEWEST_WITH_PHASES = 16


@dataclass(frozen=True)
class Plant:
    """The planted cause: its `name` of PLANTS, the `ranks` that have it, its `size` as a part of
    the step without it (0.2: a fifth), and in each how many-th step it comes (`every`)."""

    name: str = "nothing"
    ranks: tuple[int, ...] = ()
    size: float = 0.0
    every: int = 1


def fix_plant(plant: Plant) -> Plant:
    """What is left of a plant when its cause is gone."""
    return replace(plant, name=FIXED.get(plant.name, "nothing"))


@dataclass(frozen=True)
class Phases:
    """What a loop does beside training: it evaluates every n-th step (0: never), before the step's
    own work or after it, and its rank 0 saves the weights after every n-th."""

    evaluate_every: int = 0
    evaluates_first: bool = False
    save_every: int = 0


@dataclass(frozen=True)
class Program:
    """A data-parallel training. Times in us; `forward` and `backward` are a layer's kernels as
    (name, time). `jitter`: the spread of kernels' and host times (0.01 is 1 %). `window`: which
    part of the run is recorded, None for all. `slow_steps`: how many first steps compile and
    autotune. `hosts` have clocks `clock_error_us` apart, beyond what their UTC times say."""

    seed: int
    ranks: int
    steps: int
    layers: int
    accumulation: int
    buckets: int
    forward: tuple[tuple[str, float], ...]
    backward: tuple[tuple[str, float], ...]
    optimizer: tuple[tuple[str, float], ...]
    host_us: float
    depth: int
    transfer_us: float
    jitter: float
    marks: str
    separate_reports: bool
    hosts: int
    clock_error_us: float
    startup_us: float
    slow_steps: int
    log_every: int
    item_each_step: bool
    window: tuple[float, float] | None
    phases: Phases
    plant: Plant
    second: Plant = Plant()

    @property
    def plants(self) -> tuple[Plant, ...]:
        return tuple(planted for planted in (self.plant, self.second) if planted.name != "nothing")

    @property
    def saves(self) -> bool:
        return self.phases.save_every > 0

    @property
    def read_share(self) -> float:
        """The part of the steps in which the host reads a value: for a log or an evaluation."""
        if self.item_each_step:
            return 1.0
        return sum(1 / every for every in (self.log_every, self.phases.evaluate_every) if every)

    def without(self, plant: Plant) -> "Program":
        kept = [planted if planted != plant else Plant() for planted in (self.plant, self.second)]
        return replace(self, plant=kept[0], second=kept[1])

    @property
    def step_us(self) -> float:
        """The GPU's work in a step, communication aside."""
        layer = sum(time for _, time in (*self.forward, *self.backward))
        return self.accumulation * self.layers * layer + sum(time for _, time in self.optimizer)

    @property
    def launches(self) -> int:
        """Kernels in a step, communication aside."""
        layer = len(self.forward) + len(self.backward)
        return self.accumulation * self.layers * layer + len(self.optimizer)


def draw_program(seed: int) -> Program:
    """A program that depends on the seed alone. The host launches faster than the GPU works, and
    communication hides, unless the plant says otherwise."""
    draw = random.Random(seed)
    ranks = draw.choice((1, 2, 2, 4, 4, 4, 8))
    kernel = draw.uniform(30, 300)
    program = Program(
        seed=seed,
        ranks=ranks,
        steps=draw.randint(10, 24),
        layers=draw.randint(3, 12),
        accumulation=draw.choice((1, 1, 1, 2, 4)),
        buckets=draw.randint(1, 3),
        forward=_draw_kernels(draw, FORWARD, draw.randint(2, 4), kernel),
        backward=_draw_kernels(draw, BACKWARD, draw.randint(2, 4), kernel),
        optimizer=_draw_kernels(draw, OPTIMIZER, draw.randint(1, 3), kernel),
        host_us=draw.uniform(2, 6),
        depth=draw.choice((32, 128, 1000)),
        transfer_us=0.0,
        jitter=draw.choice((0.0, 0.005, 0.02)),
        marks=draw.choice(MARKS),
        separate_reports=draw.random() < 0.5,
        hosts=draw.choice((1, 1, 2)) if ranks > 1 else 1,
        clock_error_us=draw.uniform(-5_000, 5_000),
        startup_us=draw.choice((0.0, draw.uniform(1e5, 5e6))),
        slow_steps=draw.randint(0, 2),
        log_every=draw.choice((0, 0, 4, 10)),
        item_each_step=draw.random() < 0.3,
        window=draw.choice((None, None, None, (draw.uniform(0, 0.2), draw.uniform(0.7, 1)))),
        phases=Phases(),
        plant=Plant(),
    )
    program = replace(program, phases=_draw_phases(program))
    # Communication alone is never worth a word: 4 % of the step at most.
    transfer = draw.uniform(0.005, 0.04) * program.step_us / program.buckets
    program = replace(program, transfer_us=transfer, plant=_draw_plant(draw, ranks))
    return replace(program, second=_draw_second(program))


def _draw_phases(program: Program) -> Phases:
    """Half of the programs only train, and those of few steps: what comes once is no repetition.

    Where an evaluation belongs tells the first step of the whole program, if its optimizer is
    known. Otherwise each belongs to the step before.
    """
    draw = random.Random(f"phases {program.seed}")
    low, high = program.window or (0.0, 1.0)
    if draw.random() < 0.5 or program.steps * (high - low) < FEWEST_WITH_PHASES:
        return Phases()
    known = any("multi_tensor" in name for name, _ in program.optimizer)
    first = known and program.window is None and draw.random() < 0.5
    return Phases(draw.choice((0, 5, 8)), first, draw.choice((0, 5, 7)))


def _draw_kernels(
    draw: random.Random, names: tuple[str, ...], count: int, mean: float
) -> tuple[tuple[str, float], ...]:
    return tuple((name, mean * draw.uniform(0.4, 1.6)) for name in draw.sample(names, count))


def _draw_plant(draw: random.Random, ranks: int) -> Plant:
    names = [name for name in PLANTS if ranks > 1 or name not in (*ALONE, "exposed")]
    return _size_plant(draw, draw.choice(names), ranks)


def _draw_second(program: Program) -> Plant:
    """A fifth of the programs whose one rank is late have something else on all ranks, too."""
    draw = random.Random(f"second {program.seed}")
    if program.plant.name not in ALONE or draw.random() < 0.5:
        return Plant()
    return _size_plant(draw, draw.choice(SECOND), program.ranks)


def _size_plant(draw: random.Random, name: str, ranks: int) -> Plant:
    owners = tuple(range(ranks))
    if name in ALONE:
        owners = tuple(sorted(draw.sample(owners, 1 if ranks < 6 else draw.choice((1, 2)))))
    every = draw.randint(2, 5) if name == "every_nth" else 1
    size = draw.choice((draw.uniform(0.02, 0.1), draw.uniform(0.1, 0.6))) * every
    return Plant(name, owners, size, every)
