#!/usr/bin/env python3
"""Train a small transformer language model on made-up tokens: something real to profile.

Alone, or one rank of torchrun, profile.py, mpirun or srun (torchrun's variables); on the GPU
with NCCL where there is one, otherwise on the CPU with gloo. NVTX ranges: step > data, forward,
backward, optimizer. The measured steps lie between cudaProfilerStart and cudaProfilerStop.
Rank 0 prints one JSON line a step: {"step": 3, "step_ms": 12.5, "loss": 5.1}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # Last, for torch imports Python's own profile module, not the profile.py beside this file.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [*(path for path in sys.path if path != here), here]
# Debian's torch is built without libuv, which the rendezvous would otherwise ask for.
os.environ.setdefault("USE_LIBUV", "0")
# OpenMP's idle threads would spin on cores that other ranks and nsys need: on two cores at a load
# of 12 the default run took 26.3 s of CPU and 1.4 s a step, in place of 3.7 s and 27 ms.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    Range = Callable[[str], AbstractContextManager[Any]]

VOCABULARY = 512
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# PyTorch 2 would find out by itself, and wait for the GPU to do so; PyTorch 1 knows no such word.
CAUSAL = {} if torch.__version__.startswith("1.") else {"is_causal": True}


def flags(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--layers", type=int, default=2, help="transformer layers")
    parser.add_argument("--width", type=int, default=128, help="model width, a multiple of 64")
    parser.add_argument("--sequence", type=int, default=32, help="tokens a sample")
    parser.add_argument("--batch", type=int, default=4, help="samples a rank and step")
    parser.add_argument("--steps", type=int, default=20, help="measured steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measured ones")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of the activations")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    if options.width % 64 or min(options.layers, options.width, options.batch, options.steps) < 1:
        parser.error("layers, batch and steps start at 1, width is a multiple of 64")
    return options


class LanguageModel(nn.Module):  # type: ignore[misc]  # torch is not there to be checked
    """Token and place embeddings, a causal transformer, and a guess at each next token."""

    def __init__(self, layers: int, width: int, sequence: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(sequence, width))
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.guess = nn.Linear(width, VOCABULARY)
        mask = nn.Transformer.generate_square_subsequent_mask(sequence)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [batch, sequence] to logits [batch, sequence, VOCABULARY]."""
        hidden = self.body(self.tokens(tokens) + self.places, mask=self.mask, **CAUSAL)
        guess: torch.Tensor = self.guess(hidden)
        return guess


class Training:
    """One rank: its device, model and data."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = device_for(options.device)
        self.device_ids = [self.device.index] if self.device.type == "cuda" else None
        self.range = ranges_on(self.device)
        torch.manual_seed(options.seed)
        model: nn.Module = LanguageModel(options.layers, options.width, options.sequence)
        model.to(self.device)
        if self.world_size > 1:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
            model = DistributedDataParallel(model, device_ids=self.device_ids)
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        self.generator = torch.Generator().manual_seed(options.seed + self.rank)

    def describe(self) -> dict[str, Any]:
        return {
            "device": device_name(self.device),
            "world_size": self.world_size,
            "backend": dist.get_backend() if dist.is_initialized() else "none",
            "dtype": self.options.dtype,
            "parameters": sum(weights.numel() for weights in self.model.parameters()),
            "torch": torch.__version__,
        }

    def data(self) -> torch.Tensor:
        """Samples [batch, sequence + 1] of a rule that can be learned: x -> 5 x + 7."""
        shape = (self.options.batch, 1)
        first = torch.randint(VOCABULARY, shape, generator=self.generator)
        columns = [first]
        for _ in range(self.options.sequence):
            columns.append((5 * columns[-1] + 7) % VOCABULARY)
        samples = torch.cat(columns, dim=1)
        if self.device.type == "cuda":
            samples = samples.pin_memory()
        return samples.to(self.device, non_blocking=True)

    def step(self) -> float:
        """One step of training. Returns its loss."""
        dtype = DTYPES[self.options.dtype]
        plain = dtype == torch.float32
        mixed = contextlib.nullcontext() if plain else torch.autocast(self.device.type, dtype)
        with self.range("step"):
            with self.range("data"):
                samples = self.data()
            with self.range("forward"), mixed:
                logits = self.model(samples[:, :-1]).flatten(0, 1)
                loss = nn.functional.cross_entropy(logits, samples[:, 1:].flatten())
            with self.range("backward"):
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
            with self.range("optimizer"):
                self.optimizer.step()
            # Waits for the GPU: a step's time is then that of its work, not of its launches.
            return float(loss.detach())

    def run(self) -> None:
        for _ in range(self.options.warmup):
            self.step()
        with window_on(self.device):
            for number in range(self.options.steps):
                started = time.perf_counter()
                loss = self.step()
                elapsed_ms = (time.perf_counter() - started) * 1e3
                self.say({"step": number, "step_ms": round(elapsed_ms, 3), "loss": round(loss, 4)})

    def say(self, line: dict[str, Any]) -> None:
        if self.rank == 0:
            print(json.dumps(line), flush=True)


def device_for(wanted: str) -> torch.device:
    """`auto`, `cpu` or `cuda`, which is this local rank's GPU."""
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if local_rank >= torch.cuda.device_count():
        sys.exit(f"train.py: local rank {local_rank} has none of {torch.cuda.device_count()} GPUs")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def ranges_on(device: torch.device) -> Range:
    """How to mark an NVTX range: torch's own way needs a CUDA build, the nvtx package none."""
    if device.type == "cuda":
        marked: Range = torch.cuda.nvtx.range
        return marked
    try:
        import nvtx
    except ImportError:
        print("train.py: without the nvtx package there are no ranges", file=sys.stderr)
        return lambda name: contextlib.nullcontext()
    annotated: Range = nvtx.annotate
    return annotated


@contextlib.contextmanager
def window_on(device: torch.device) -> Iterator[None]:
    """What `nsys profile --capture-range=cudaProfilerApi` records. Nothing without CUDA."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    yield
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def main() -> None:
    training = Training(flags())
    training.say(training.describe())
    training.run()
    if dist.is_initialized():
        # Without device_ids, NCCL takes the GPU that has the rank's number.
        dist.barrier(device_ids=training.device_ids)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
