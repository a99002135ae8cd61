"""Synthetic servers: an engine with continuous batching on a modelled host and GPU; the truth."""

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.generator.reports import EPOCH_NS
from tests.generator.simulate import count_operations, find_first_start
from tests.unit.analysis.synthetic import MS, STREAM, US, Rank, Recording, ranks_of

ATTENTION = {
    True: "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Params)",
    False: "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Params)",
}
"""By whether it decodes. FlashAttention's names prove nothing."""
FLASHINFER = {
    True: "void flashinfer::BatchDecodeWithPagedKVCacheKernel<PosEncodingMode(0), 2, 4, 8>(Params)",
    False: "void flashinfer::BatchPrefillWithPagedKVCacheKernel<KernelTraits<1, 128>>(Params)",
}
PRODUCT = "nvjet_hsh_128x64_64x8_1x2_h_bz_TNT"
SAMPLE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps>>"
)
REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)"
SIZES = (1, 2, 4, 8, 16)
"""The batches of the captured graphs."""


@dataclass(frozen=True)
class Server:
    """Times in us. `engine`: whose marks it makes, "" for none. `graphs`: "node" or "graph" as nsys
    traces them, "" where each kernel is launched. `chunk`: tokens of prompts in one iteration
    beside the decoding, 0 for iterations of prompts alone. `verifies`: tokens that are drafted and
    verified in one iteration. `gap_us`: the host's work between two iterations. `models`: engines
    that take turns in one process. `largest`: the largest batch with a graph. `copies`: small
    copies to the device in each iteration. `held_us`: the host waits so long after each of them.
    `bursts`: requests come together, and none for a while. `flashinfer`: its kernels compute the
    attention.
    """

    seed: int = 1
    engine: str = "vLLM"
    graphs: str = "node"
    chunk: int = 0
    verifies: int = 0
    gap_us: float = 150.0
    models: int = 1
    largest: int = 16
    copies: int = 2
    held_us: float = 0.0
    requests: int = 40
    every_us: float = 12_000.0
    bursts: int = 1
    layers: int = 4
    product_us: float = 150.0
    token_us: float = 4.0
    host_us: float = 4.0
    flashinfer: bool = False


@dataclass
class Request:
    """A request; times in ns on the server's clock, `first` and `end` when a token was told."""

    number: int
    arrival: int
    prompt: int
    output: int
    model: int
    read: int = 0
    written: int = 0
    told: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Iteration:
    """The truth of one iteration: when the host began it and the GPU's first operation started,
    its kind and its requests. `alone`: no request was left when it ended.
    """

    host: int
    gpu: int
    kind: str
    batch: int
    alone: bool


@dataclass
class Serving:
    """A server that ran: its rank with the recording, its iterations and its requests."""

    server: Server
    rank: Rank
    iterations: list[Iteration] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def save(self, folder: Path) -> Path:
        return self.rank.recording.save(folder / "rank0.host0.sqlite")

    def save_requests(self, path: Path) -> Path:
        """The requests as JSON lines, with Unix times."""
        lines = [json.dumps(_as_line(request)) for request in self.requests]
        path.write_text("\n".join(lines) + "\n")
        return path


def _as_line(request: Request) -> dict[str, object]:
    times = (request.arrival, request.told[0], request.told[-1])
    arrival, first, end = ((EPOCH_NS + time) / 1e9 for time in times)
    line = {"id": f"r{request.number}", "arrival": arrival, "first_token": first, "end": end}
    return {**line, "tokens": len(request.told)}


def serve(server: Server) -> Serving:
    """Run the server until all requests are served; the same for the same server."""
    (rank,) = ranks_of(1)
    rank.now, rank.free, rank.events = 50 * MS, 50 * MS, bool(server.held_us)
    recording: Recording = rank.recording
    recording.add("TARGET_INFO_SESSION_START_TIME", EPOCH_NS)
    run = Serving(server, rank, requests=_draw_requests(server))
    waiting, running, turn = list(run.requests), list[Request](), 0
    while waiting or running:
        if not running and waiting[0].arrival > rank.now:
            rank.now = waiting[0].arrival
        came = [request for request in waiting if request.arrival <= rank.now]
        running += came
        waiting = waiting[len(came) :]
        turn += 1
        mine = [request for request in running if request.model == turn % server.models]
        if mine:
            _iterate(run, mine)
            running = [request for request in running if len(request.told) < request.output]
            run.iterations[-1] = replace(run.iterations[-1], alone=not running)
    return run


def _draw_requests(server: Server) -> list[Request]:
    draw = random.Random(f"requests {server.seed}")
    requests, time = [], 60 * MS
    for number in range(server.requests):
        time += int(draw.expovariate(1 / server.every_us) * US)
        if server.bursts > 1 and number % (server.requests // server.bursts) == 0:
            time += 500 * MS
        sizes = draw.choice((64, 128, 900, 2000)), draw.randint(8, 30)
        requests.append(Request(number, time, *sizes, draw.randrange(server.models)))
    return requests


def _iterate(run: Serving, running: list[Request]) -> None:
    server, rank = run.server, run.rank
    rank.work(server.gap_us)
    host, counts = rank.now, count_operations(rank)
    prompts = [request for request in running if request.read < request.prompt]
    decoding = [request for request in running if request.read >= request.prompt]
    chunks = _choose_chunks(server, prompts)
    if chunks and not server.chunk:
        decoding = []
    kind = "mixed" if chunks and decoding else "prefill" if chunks else "decode"
    tokens = sum(chunks.values())
    _launch(run, kind, len(decoding), tokens)
    end = rank.now
    _mark(server, rank, host, (len(chunks), tokens, len(decoding)))
    for request in running:
        if request.number in chunks:
            request.read += chunks[request.number]
        if request in decoding or (request.number in chunks and request.read >= request.prompt):
            many = server.verifies if request in decoding and server.verifies else 1
            request.told += [end + 30 * US] * min(many, request.output - len(request.told))
    batch = len(chunks) + len(decoding)
    first = find_first_start(rank, counts)
    run.iterations.append(Iteration(host, first, kind, batch, False))


def _choose_chunks(server: Server, prompts: list[Request]) -> dict[int, int]:
    """By the number of a request, how many of its tokens are read now."""
    left, chunks = server.chunk or 8192, dict[int, int]()
    for request in prompts:
        size = min(left, request.prompt - request.read)
        if size:
            chunks[request.number] = size
            left -= size
    return chunks


def _launch(run: Serving, kind: str, decoding: int, tokens: int) -> None:
    """The iteration's copies, kernels and the copy of its tokens, for which the host waits."""
    server, rank = run.server, run.rank
    for _ in range(server.copies):
        if server.held_us:
            rank.copy(0.0002, 0.02)
            rank.synchronize(server.held_us)
        else:
            rank.copy(0.0002)
    work = tokens * server.token_us / server.layers
    names, kernels = FLASHINFER if server.flashinfer else ATTENTION, []
    for _ in range(server.layers):
        if tokens:
            kernels.append((names[False], 10 + work * 0.2))
        if decoding:
            kernels.append((names[True], 20 + 4.0 * decoding * max(1, server.verifies)))
        kernels.append((PRODUCT, server.product_us + work))
    if kind == "decode" and server.graphs and decoding <= server.largest:
        replay(rank, kernels, server.graphs == "node")
    else:
        for name, time in kernels:
            rank.work(server.host_us)
            rank.kernel(time, name)
    rank.kernel(12, SAMPLE)
    rank.item()


def replay(rank: Rank, kernels: list[tuple[str, float]], by_node: bool) -> None:
    """Replay a CUDA graph with these kernels (name, us), traced by node or as a whole."""
    if not by_node:
        rank.graph(sum(time + 0.5 for _, time in kernels))
        return
    call, launch_time = rank.call("cudaGraphLaunch_v10000", 10), rank.now
    rank.free = max(rank.free, launch_time - 6 * US)
    for node, (name, time) in enumerate(kernels):
        start = rank.free + US // 2
        rank.free = start + int(time * US)
        code = rank.recording.name(name)
        place = (rank.rank, STREAM, call, rank.process, code, code, 1000 + node)
        rank.recording.add("CUPTI_ACTIVITY_KIND_KERNEL", start, rank.free, *place)


def _mark(server: Server, rank: Rank, start: int, counts: tuple[int, int, int]) -> None:
    """The engine's range from `start` until now; `counts`: prompts, their tokens, decoding."""
    prompts, tokens, decoding = counts
    mode = "MIXED" if prompts and decoding else "EXTEND" if prompts else "DECODE"
    size = f" toks={tokens}" if mode == "EXTEND" else ""
    texts = {
        "vLLM": f"execute_context_{prompts}({tokens})_generation_{decoding}({decoding})",
        "SGLang": f"step[{mode} bs={prompts + decoding}{size}]",
        "TensorRT-LLM": f"[Executor] _forward_step {start % 1000}: {prompts} ctx reqs, "
        f"{tokens} ctx tokens, {decoding} gen reqs",
    }
    if server.engine == "SGLang" and server.verifies:
        _mark_drafts(rank, start, texts["SGLang"])
    elif server.engine:
        rank.range(texts[server.engine], start)


def _mark_drafts(rank: Rank, start: int, text: str) -> None:
    """The ranges of a target model, and after them those of the one that drafts tokens."""
    decodes = "DECODE" in text
    rank.range(text.replace("DECODE", "TARGET_VERIFY"), start)
    for name in ("DRAFT_EXTEND", "DECODE", "DECODE") if decodes else ("EXTEND",):
        rank.work(5)
        begin = rank.now
        rank.kernel(3, PRODUCT)
        rank.range(text.replace("DECODE", name), begin)
