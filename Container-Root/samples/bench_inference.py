#!/usr/bin/env python3
"""Measure inference of a small network, by backend, and check its answers.

Networks: a convolutional one and a transformer block. Backends: eager, torch.compile, CUDA
graphs, and TensorRT through torch_tensorrt or torch2trt. NVTX ranges: batch. The measured batches
lie between cudaProfilerStart and cudaProfilerStop. Prints one JSON line. Exits 1 where an answer
is wrong, 2 where a backend is not to be had, with what it takes. The answers are checked against
eager's in float64 on the CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # Last, for torch imports Python's own profile module, not the profile.py beside this file.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [*(path for path in sys.path if path != here), here]

import torch
from torch import nn
from train import device_for, device_name, ranges_on, window_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Network = Callable[[torch.Tensor], torch.Tensor]

WIDTH = 128
TOKENS = 64
# The largest difference from eager's answer in float64, in parts of its largest value: what
# rounding alone makes of some ten layers. TF32 has float32's range and half's steps.
DTYPES = {
    "float32": (torch.float32, 1e-2),
    "float16": (torch.float16, 2e-2),
    "bfloat16": (torch.bfloat16, 5e-2),
}


class RefusedError(Exception):
    """A backend that is not to be had here, and what it takes."""


def convolutional() -> nn.Module:
    """Images [batch, 3, 64, 64] to 10 classes."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, WIDTH)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs)]
        layers += [nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 10))


def transformer() -> nn.Module:
    """One block: [batch, TOKENS, WIDTH] to the same."""
    return nn.TransformerEncoderLayer(
        WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
    )


NETWORKS = {
    "conv": (convolutional, (3, 64, 64)),
    "transformer": (transformer, (TOKENS, WIDTH)),
}


def eager(network: nn.Module, _example: torch.Tensor) -> Network:
    run: Network = network
    return run


def compiled(network: nn.Module, _example: torch.Tensor) -> Network:
    if not hasattr(torch, "compile"):
        raise RefusedError("torch.compile takes PyTorch 2: pip install --upgrade torch")
    fast: Network = torch.compile(network)
    return fast


def cuda_graph(network: nn.Module, example: torch.Tensor) -> Network:
    """One recorded graph: a batch is copied into its input, and its output is read."""
    _need_cuda(example, "CUDA graphs need")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            network(example)
    torch.cuda.current_stream().wait_stream(side)
    graph, place = torch.cuda.CUDAGraph(), example.clone()
    with torch.cuda.graph(graph):
        answer = network(place)

    def replay(batch: torch.Tensor) -> torch.Tensor:
        place.copy_(batch)
        graph.replay()
        return answer

    return replay


def tensorrt(network: nn.Module, example: torch.Tensor) -> Network:
    _need_cuda(example, "TensorRT needs torch-tensorrt or torch2trt,")
    fast: Network
    if importlib.util.find_spec("torch_tensorrt"):
        import torch_tensorrt

        fast = torch_tensorrt.compile(
            network, ir="dynamo", inputs=[example], enabled_precisions={example.dtype}
        )
    elif importlib.util.find_spec("torch2trt"):
        import torch2trt

        fast = torch2trt.torch2trt(network, [example], fp16_mode=example.dtype == torch.float16)
    else:
        raise RefusedError("TensorRT is not here: pip install torch-tensorrt, or install torch2trt")
    return fast


BACKENDS = {
    "eager": eager,
    "compile": compiled,
    "cudagraph": cuda_graph,
    "tensorrt": tensorrt,
}


def _need_cuda(example: torch.Tensor, what: str) -> None:
    if example.device.type != "cuda":
        raise RefusedError(f"{what} a GPU and a CUDA build of torch")


def flags(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--network", choices=NETWORKS, default="conv")
    parser.add_argument("--backend", choices=BACKENDS, default="eager")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--batch", type=int, default=8, help="samples a batch")
    parser.add_argument("--samples", type=int, default=400, help="at least, in whole batches")
    parser.add_argument("--warmup", type=int, default=5, help="batches before the measured ones")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    if min(options.batch, options.samples) < 1:
        parser.error("--batch and --samples start at 1")
    return options


class Bench:
    """One network on one device by one backend."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = device_for(options.device)
        torch.manual_seed(options.seed)
        make, shape = NETWORKS[options.network]
        dtype, self.tolerance = DTYPES[options.dtype]
        exact = make().eval().double()
        self.batch = torch.rand(options.batch, *shape).to(self.device, dtype)
        self.expected = exact(self.batch.double().cpu())
        network = exact.to(self.device, dtype)
        self.run = self._built(network)

    def _built(self, network: nn.Module) -> Network:
        """The backend's network, warm. What a backend cannot do it says at its first batch."""
        backend = self.options.backend
        try:
            run = BACKENDS[backend](network, self.batch)
            for _ in range(max(1, self.options.warmup)):
                run(self.batch)
        except RefusedError:
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:200] or type(error).__name__
            other = "--dtype float32" if backend == "eager" else "--backend eager"
            raise RefusedError(f"{backend} does not work here: {said}. Try {other}") from error
        return run

    def error(self) -> float:
        """The largest difference from the exact answer, in parts of its largest value."""
        answer = self.run(self.batch).double().cpu()
        return float((answer - self.expected).abs().max() / self.expected.abs().max())

    def latencies_ms(self) -> list[float]:
        """Of each batch, in order."""
        mark, times_ms = ranges_on(self.device), []
        with window_on(self.device):
            for _ in range(math.ceil(self.options.samples / self.options.batch)):
                started = time.perf_counter()
                with mark("batch"):
                    self.run(self.batch)
                    self._synchronise()
                times_ms.append((time.perf_counter() - started) * 1e3)
        return times_ms

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Nearest rank: a latency that was measured."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def summary(options: argparse.Namespace, latencies_ms: Sequence[float]) -> dict[str, Any]:
    ordered, duration_s = sorted(latencies_ms), sum(latencies_ms) / 1e3
    samples = options.batch * len(ordered)
    return {
        "network": options.network,
        "backend": options.backend,
        "dtype": options.dtype,
        "batch": options.batch,
        "samples": samples,
        "duration_s": round(duration_s, 4),
        "samples_per_s": round(samples / duration_s, 1),
        **{f"p{p}_ms": round(percentile(ordered, p), 3) for p in (50, 95, 99)},
    }


def main() -> int:
    options = flags()
    with torch.inference_mode():
        try:
            bench = Bench(options)
        except RefusedError as error:
            print(f"bench_inference.py: {error}", file=sys.stderr)
            return 2
        off = bench.error()
        figures = summary(options, bench.latencies_ms())
    device = {"device": device_name(bench.device), "torch": torch.__version__}
    print(json.dumps({**figures, "error": float(f"{off:.2g}"), **device}), flush=True)
    if not off <= bench.tolerance:
        print(
            f"bench_inference.py: wrong answers, off by {off:.2g} of the largest", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
