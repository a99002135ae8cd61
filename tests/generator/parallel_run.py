"""Run a synthetic program whose ranks do different work; NCCL tells its calls."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.generator.parallel import EXPERTS, PIPELINE, ParallelProgram
from tests.generator.pipeline_acts import Act, list_acts
from tests.generator.reports import name_reports
from tests.generator.simulate import (
    Run,
    Truth,
    count_operations,
    find_first_start,
    frozen,
    keep_between,
)
from tests.unit.analysis.nccl_synthetic import Call, Launch, begin, launch, nccl_ranks, together
from tests.unit.analysis.synthetic import Rank, Recording

MESSAGE, GRADIENTS, TOKENS = 1 << 20, 64 << 20, 1 << 21
SENDRECV = "ncclDevKernel_SendRecv"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
OPTIMIZER = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMath>(T1)"
NAMES = ("sm90_xmma_gemm_bf16bf16", "flash_fwd_kernel", "triton_poi_fused_add_0", "layer_norm")
PIPE, TENSOR, DATA = 1000, 2000, 3000  # the first communicator of each kind


@dataclass
class Machine:
    """The ranks while they run. `step` counts from 0."""

    program: ParallelProgram
    ranks: list[Rank]
    draws: list[random.Random] = field(default_factory=list)
    step: int = 0

    def __post_init__(self) -> None:
        seed = self.program.seed
        self.draws = [random.Random(f"{seed}.{rank.rank}") for rank in self.ranks]

    def kernel(self, rank: Rank, name: str, time: float) -> None:
        program, draw = self.program, self.draws[rank.rank]
        rank.work(4 + (1000 / (self.step + 1) if self.step < program.slow_steps else 0))
        late = program.plant.name in ("uneven_stage", "slow_gpu") and (
            rank.rank in program.plant.ranks
        )
        factor = 1 + program.plant.size if late else 1.0
        rank.kernel(time * factor * max(0.5, draw.gauss(1.0, program.jitter)), name)

    def group(self, rank: Rank) -> list[Rank]:
        """The rank's tensor-parallel group."""
        size = self.program.shape[1]
        first = rank.rank // size * size
        return self.ranks[first : first + size]

    def layer(self, group: Sequence[Rank], back: bool) -> None:
        """A layer of a microbatch on a tensor-parallel group."""
        for number, time in enumerate(self.program.kernels):
            for rank in group:
                name = NAMES[number] + ("_backward" if back else "")
                self.kernel(rank, name, time * (2 if back else 1))
        if len(group) > 1:
            self.all_reduce(group, TENSOR + group[0].rank, MESSAGE)

    def all_reduce(self, group: Sequence[Rank], communicator: int, size: int) -> None:
        call = Call("ncclAllReduce", communicator, size)
        together([launch(rank, ALL_REDUCE, call) for rank in group], self.program.transfer_us)


def simulate_parallel(program: ParallelProgram) -> Run:
    """The program's reports and its truth; the same for the same program."""
    machine = Machine(program, _new_ranks(program))
    host: list[list[int]] = [[] for _ in machine.ranks]
    gpu: list[list[int]] = [[] for _ in machine.ranks]
    body = {PIPELINE: _pipeline, EXPERTS: _experts}.get(program.kind, _tensor)
    for machine.step in range(program.steps):
        counts = [count_operations(rank) for rank in machine.ranks]
        for rank in machine.ranks:
            host[rank.rank].append(rank.now)
            _fetch(program, rank)
        body(machine)
        _optimize(machine, [begins[-1] for begins in host])
        for rank, before in zip(machine.ranks, counts, strict=True):
            gpu[rank.rank].append(find_first_start(rank, before))
    end = tuple(rank.free for rank in machine.ranks)
    for rank in machine.ranks:
        rank.synchronize()
    truth = Truth(frozen(host), frozen(gpu), end)
    keep_between(program.window, machine.ranks, truth)
    return Run(program, name_reports(machine.ranks), truth)


def _new_ranks(program: ParallelProgram) -> list[Rank]:
    ranks = nccl_ranks(program.ranks)
    schemas = ranks[0].recording.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"]
    for number, rank in enumerate(ranks):
        if program.separate_reports:
            rank.recording = Recording()
            rank.recording.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = schemas
            rank.recording.add("TARGET_INFO_GPU", number, "NVIDIA H200")
            rank.recording.add("TARGET_INFO_CUDA_DEVICE", number, number, 100 + number)
        rank.depth, rank.events = 1000, True
        rank.now += 50_000_000
        rank.free = rank.now
    for communicator, members in _communicators(program).items():
        for member, number in enumerate(members):
            begin(ranks[number], communicator, member, len(members))
    return ranks


def _communicators(program: ParallelProgram) -> dict[int, list[int]]:
    """The ranks of each communicator by its number: of stages, of tensors, of replicas."""
    stages, tensor, replicas = program.shape
    width = tensor * replicas
    pipes = {PIPE + member: list(range(member, program.ranks, width)) for member in range(width)}
    tensors = {
        TENSOR + first: list(range(first, first + tensor))
        for first in range(0, program.ranks, tensor)
    }
    data = {
        DATA + stage * tensor + member: list(
            range(stage * width + member, (stage + 1) * width, tensor)
        )
        for stage in range(stages)
        for member in range(tensor)
    }
    groups = {**(pipes if stages > 1 else {}), **(tensors if tensor > 1 else {})}
    return {**groups, **(data if replicas > 1 else {})}


def _fetch(program: ParallelProgram, rank: Rank) -> None:
    rank.work(20)
    if program.copies_batch:
        rank.copy(0.5)
    else:
        rank.kernel(5, "distribution_elementwise_grid_stride_kernel")


def _optimize(machine: Machine, begins: Sequence[int]) -> None:
    program = machine.program
    for communicator, members in _communicators(program).items():
        if communicator >= DATA:
            group = [machine.ranks[number] for number in members]
            machine.all_reduce(group, communicator, GRADIENTS)
    if program.kind == EXPERTS:
        machine.all_reduce(machine.ranks, PIPE, GRADIENTS)
    for rank, start in zip(machine.ranks, begins, strict=True):
        machine.kernel(rank, OPTIMIZER, 100)
        if program.marks != "none":
            rank.range("train_step", start)


def _tensor(machine: Machine) -> None:
    size = machine.program.shape[1]
    for back in (False, True):
        for _ in range(machine.program.layers):
            for first in range(0, machine.program.ranks, size):
                machine.layer(machine.ranks[first : first + size], back)


def _experts(machine: Machine) -> None:
    program, count = machine.program, machine.program.ranks
    busy = program.plant.ranks if program.plant.name == "uneven_experts" else ()
    for back in (False, True):
        for _ in range(program.layers):
            shares = _draw_shares(machine, busy)
            for rank in machine.ranks:
                machine.kernel(rank, NAMES[1], program.kernels[0] * (1 + back))
            _all_to_all(machine, shares)
            for rank, share in zip(machine.ranks, shares, strict=True):
                for number, time in enumerate(program.kernels):
                    length = time * (1 + back) * share * count / sum(shares)
                    machine.kernel(rank, f"grouped_gemm_{number}", length)
            _all_to_all(machine, shares)


def _draw_shares(machine: Machine, busy: Sequence[int]) -> list[int]:
    """The tokens of each rank's experts, in bytes; a router spreads them by 2 %."""
    draw = machine.draws[0]
    return [
        int(TOKENS * draw.gauss(1.0, 0.02) * (1 + machine.program.plant.size * (rank.rank in busy)))
        for rank in machine.ranks
    ]


def _all_to_all(machine: Machine, shares: Sequence[int]) -> None:
    launches = []
    for member, rank in enumerate(machine.ranks):
        calls = [
            call
            for peer in range(len(shares))
            for call in (
                Call("ncclSend", PIPE, shares[peer] // len(shares), peer),
                Call("ncclRecv", PIPE, shares[member] // len(shares), peer),
            )
        ]
        launches.append(launch(rank, SENDRECV, *calls, grouped=True))
    together(launches, machine.program.transfer_us)


def _pipeline(machine: Machine) -> None:
    """Run the schedules of all stages; an exchange waits until both sides have come to it."""
    program = machine.program
    stages, width = program.shape[0], program.shape[1] * program.shape[2]
    plans = [list_acts(program, stage)[::-1] for stage in range(stages)]
    while any(plans):
        for stage, plan in enumerate(plans):
            while plan and plan[-1][0] in ("forward", "backward"):
                _work(machine, stage, plan.pop()[0] == "backward")
            if plan and plan[-1][1] == stage + 1 and plans[stage + 1][-1:] == [_answer(plan[-1])]:
                what = plan.pop()[0]
                plans[stage + 1].pop()
                for member in range(width):
                    low, high = (machine.ranks[s * width + member] for s in (stage, stage + 1))
                    _exchange(machine, low, high, PIPE + member, stage, what)


def _answer(act: Act) -> Act:
    """What the next stage does when a stage sends forward, receives back, or both."""
    what, peer = act
    return {"send": "receive", "receive": "send", "both": "both"}[what], peer - 1


def _work(machine: Machine, stage: int, back: bool) -> None:
    _, tensor, replicas = machine.program.shape
    first = stage * tensor * replicas
    for _ in range(machine.program.layers):
        for replica in range(replicas):
            start = first + replica * tensor
            machine.layer(machine.ranks[start : start + tensor], back)


def _exchange(
    machine: Machine, low: Rank, high: Rank, communicator: int, stage: int, what: str
) -> None:
    """A message between neighbours: `what` the lower stage does."""
    names = {"send": ("ncclSend",), "receive": ("ncclRecv",), "both": ("ncclSend", "ncclRecv")}
    answers = {"ncclSend": "ncclRecv", "ncclRecv": "ncclSend"}

    def side(rank: Rank, peer: int, calls: Sequence[str]) -> Launch:
        told = [Call(name, communicator, MESSAGE, peer) for name in calls]
        return launch(rank, SENDRECV, *told, grouped=True)

    one = side(low, stage + 1, names[what])
    other = side(high, stage, [answers[name] for name in names[what]])
    together([one, other], machine.program.transfer_us)
