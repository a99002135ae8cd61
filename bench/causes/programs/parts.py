"""Models, batches and optimizers that several programs share."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from turns import Turns  # noqa: E402

DEVICE = "cuda"
RANK = int(os.environ.get("RANK", "0"))


def use_gpu(turns: Turns) -> None:
    """Let blocks end when the GPU's work has ended; the same numbers in each run."""
    torch.manual_seed(0)
    turns.synchronize = torch.cuda.synchronize


def use_ranks(turns: Turns, backend: str = "nccl") -> None:
    """Take this rank's GPU, start torch.distributed, and let blocks of all ranks be of one length."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    distributed.init_process_group(backend)
    turns.synchronize, turns.agree = _wait_for_ranks, _take_first


def _wait_for_ranks() -> None:
    torch.cuda.synchronize()
    distributed.barrier()


def _take_first(value: float) -> float:
    values = [value]
    distributed.broadcast_object_list(values)
    return values[0]


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A small GPT: tokens of shape (batch, length) to logits."""

    def __init__(self, layers: int, width: int, heads: int = 8, words: int = 8192) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def language_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of the next token, computed in bf16 where that is safe."""
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def image_loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of classes, computed in bf16 where that is safe."""
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(images)
    return nn.functional.cross_entropy(logits.float(), labels)


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """A backward pass and an optimizer step."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def draw_tokens(batch: int, length: int, words: int = 8192) -> torch.Tensor:
    return torch.randint(words, (batch, length), device=DEVICE)


def repeat(loader: Any) -> Iterator[Any]:  # noqa: ANN401 - a DataLoader of any batches
    """The loader's batches without an end."""
    while True:
        yield from loader


def run_eager_or_graph(turns: Turns, step: Callable[[], None]) -> None:
    """Run steps of work on the GPU: with the cause launched from Python, with the fix as a graph."""
    graph = None
    while turns.step():
        if turns.planted:
            step()
            continue
        if graph is None:
            graph = _capture(step)
        graph.replay()


def _capture(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """The step as a CUDA graph, after three runs of it on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
