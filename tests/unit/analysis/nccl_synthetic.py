"""Synthetic ranks whose communication NCCL describes: groups, peers, communicators, sizes."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.unit.analysis.synthetic import US, Rank, Recording, ranks_of

COLLECTIVE, BETWEEN_TWO, BEGIN = 201, 202, 203
_ENTRIES = (
    (COLLECTIVE, "NCCL communicator ID", None),
    (COLLECTIVE, "Message size [bytes]", 8),
    (BETWEEN_TWO, "NCCL communicator ID", None),
    (BETWEEN_TWO, "Message size [bytes]", 8),
    (BETWEEN_TWO, "Peer rank", 16),
    (BEGIN, "NCCL communicator ID", None),
    (BEGIN, "No. of ranks", 8),
    (BEGIN, "Rank", 12),
    (BEGIN, "CUDA device", 16),
)
STREAM = 7  # torch runs what is waited for at once on the stream of the compute


@dataclass(frozen=True)
class Call:
    """One call of NCCL: ncclSend to a `peer` of the communicator, ncclAllReduce without one."""

    name: str
    communicator: int
    size: int
    peer: int | None = None

    @property
    def blob(self) -> bytes:
        if self.peer is None:
            payload = struct.pack("<QQ", self.communicator, self.size)
            return struct.pack("<4Q", 1, COLLECTIVE, len(payload), 32) + payload
        payload = struct.pack("<QQi4x", self.communicator, self.size, self.peer)
        return struct.pack("<4Q", 1, BETWEEN_TWO, len(payload), 32) + payload


def nccl_ranks(count: int) -> list[Rank]:
    ranks = ranks_of(count)
    ranks[0].recording.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = [(1, *entry) for entry in _ENTRIES]
    return ranks


def begin(rank: Rank, communicator: int, member: int, size: int) -> None:
    """ncclCommInitRankConfig: the rank is number `member` of a communicator of `size`."""
    payload = struct.pack("<Qiii4x", communicator, size, member, rank.rank)
    blob = struct.pack("<4Q", 1, BEGIN, len(payload), 32) + payload
    _range(rank, "ncclCommInitRankConfig", rank.now, rank.now + US, blob)


def _range(rank: Rank, name: str, start: int, end: int, blob: bytes | None = None) -> None:
    text = rank.recording.name(name)
    rank.recording.add("NVTX_EVENTS", start, end, 59, rank.thread, 1, None, text, blob)


@dataclass(frozen=True)
class Launch:
    """A kernel that was launched and may start at `start`; where it stands is known at its end."""

    rank: Rank
    name: str
    call: int
    start: int

    def ends(self, end: int) -> None:
        code = self.rank.recording.name(self.name)
        place = (self.rank.rank, STREAM, self.call, self.rank.process, code, code)
        self.rank.recording.add("CUPTI_ACTIVITY_KIND_KERNEL", self.start, end, *place)
        self.rank.free = end


def launch(rank: Rank, name: str, *calls: Call, grouped: bool = False) -> Launch:
    """Call NCCL: alone, the kernel is launched in the call's range, else in ncclGroupEnd's."""
    if grouped:
        _range(rank, "ncclGroupStart", rank.now, rank.now + 100)
        rank.now += 200
        for call in calls:
            _range(rank, call.name, rank.now, rank.now + 100, call.blob)
            rank.now += 200
    start = rank.now
    rank.now += 100
    number = rank.call("cudaLaunchKernelExC_v11060", 2)
    outer = "ncclGroupEnd" if grouped else calls[0].name
    _range(rank, outer, start, rank.now + 50, None if grouped else calls[0].blob)
    rank.now += 100
    return Launch(rank, name, number, max(rank.free + US, rank.now))


def together(launches: Sequence[Launch], transfer_us: float = 30) -> None:
    """All end when the last one has arrived and the data has moved."""
    end = max(launch.start for launch in launches) + int(transfer_us * US)
    for launch in launches:
        launch.ends(end)


def all_reduce_of(ranks: Sequence[Rank], communicator: int, size: int = 8 << 20) -> None:
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    call = Call("ncclAllReduce", communicator, size)
    together([launch(rank, name, call) for rank in ranks])


def send(source: Rank, target: Rank, communicator: int, numbers: tuple[int, int]) -> None:
    """One message, `numbers` are those of source and target in the communicator."""
    size, name = 1 << 20, "ncclDevKernel_SendRecv"
    one = launch(source, name, Call("ncclSend", communicator, size, numbers[1]), grouped=True)
    other = launch(target, name, Call("ncclRecv", communicator, size, numbers[0]), grouped=True)
    together([one, other])


def all_to_all(ranks: Sequence[Rank], communicator: int, shares: Sequence[int]) -> None:
    """Every rank sends number i `shares[i]` bytes, itself included."""
    launches = []
    for member, rank in enumerate(ranks):
        calls = [
            call
            for peer in range(len(ranks))
            for call in (
                Call("ncclSend", communicator, shares[peer], peer),
                Call("ncclRecv", communicator, shares[member], peer),
            )
        ]
        launches.append(launch(rank, "ncclDevKernel_SendRecv", *calls, grouped=True))
    together(launches)


def run_steps(ranks: Sequence[Rank], step: Callable[[], None], count: int = 12) -> Recording:
    """Each step in a range of every rank."""
    for _ in range(count):
        starts = [rank.now for rank in ranks]
        step()
        for rank, start in zip(ranks, starts, strict=True):
            rank.range("step", start)
    for rank in ranks:
        rank.synchronize()
    return ranks[0].recording


def pipeline(stage_us: Sequence[float], microbatches: int = 8) -> Recording:
    """GPipe: all microbatches forward, then backward; a stage takes so many us for each."""
    ranks = nccl_ranks(len(stage_us))
    for number, rank in enumerate(ranks):
        begin(rank, 77, number, len(ranks))

    def work(number: int) -> None:
        for _ in range(4):
            ranks[number].kernel(stage_us[number] / 4)

    def step() -> None:
        for _ in range(microbatches):
            for number in range(len(ranks)):
                if number:
                    send(ranks[number - 1], ranks[number], 77, (number - 1, number))
                work(number)
        for _ in range(microbatches):
            for number in reversed(range(len(ranks))):
                if number < len(ranks) - 1:
                    send(ranks[number + 1], ranks[number], 77, (number + 1, number))
                work(number)
        for rank in ranks:
            rank.kernel(100, "adam")

    return run_steps(ranks, step)


def experts(
    expert_us: Sequence[float],
    shares: Sequence[int],
    layers: int = 3,
    host_us: Sequence[float] = (),
) -> Recording:
    """Layers of attention, dispatch, experts, combine; at last a gradient's all-reduce.

    `host_us`: what each rank's host works before a layer, after it has seen the last one's result.
    """
    ranks = nccl_ranks(len(expert_us))
    for number, rank in enumerate(ranks):
        begin(rank, 88, number, len(ranks))

    def step() -> None:
        for _ in range(layers):
            for rank, work in zip(ranks, host_us, strict=False):
                rank.synchronize()
                rank.work(work)
            for rank in ranks:
                rank.kernel(300, "attention")
            all_to_all(ranks, 88, shares)
            for rank, length in zip(ranks, expert_us, strict=True):
                rank.kernel(length, "grouped_gemm")
            all_to_all(ranks, 88, shares)
        all_reduce_of(ranks, 88)
        for rank in ranks:
            rank.kernel(100, "adam")

    return run_steps(ranks, step)


def ring(count: int) -> Recording:
    """Context parallelism: every rank sends to the next one and receives from the one before."""
    ranks, size, name = nccl_ranks(count), 1 << 20, "ncclDevKernel_SendRecv"

    def step() -> None:
        for _ in range(count):
            for rank in ranks:
                rank.kernel(200)
            launches = [
                launch(
                    rank,
                    name,
                    Call("ncclSend", 55, size, (member + 1) % count),
                    Call("ncclRecv", 55, size, (member - 1) % count),
                    grouped=True,
                )
                for member, rank in enumerate(ranks)
            ]
            together(launches)

    return run_steps(ranks, step)


def tensor_and_data(layers: int = 6, scattered: int = 0) -> Recording:
    """Four ranks: tensor parallel over 0, 1 and 2, 3; data parallel over 0, 2 and 1, 3. Rank 0
    scatters so many parameters first."""
    ranks = nccl_ranks(4)
    for _ in range(scattered):
        for number in (1, 2, 3):
            send(ranks[0], ranks[number], 15, (0, number))

    def step() -> None:
        for _ in range(2 * layers):
            for rank in ranks:
                rank.kernel(200)
            all_reduce_of(ranks[:2], 11, 4 << 20)
            all_reduce_of(ranks[2:], 12, 4 << 20)
        all_reduce_of(ranks[::2], 13, 64 << 20)
        all_reduce_of(ranks[1::2], 14, 64 << 20)
        for rank in ranks:
            rank.kernel(100, "adam")

    return run_steps(ranks, step)
