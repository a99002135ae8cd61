"""Replay a CUDA graph with a stand-in for an engine's all-reduce after each of its layers.

    python3 bench/serving/programs/reduces.py [REPLAYS]

The kernel has the name of vLLM's custom all-reduce and waits for nobody, so that one GPU is enough
to see how a recording numbers the nodes of a graph. Each 50th iteration launches its kernels one by
one, as engines do with prompts.
"""

import sys

import cupy
import torch

LAYERS, WIDTH, BATCH, EAGER = 6, 1024, 16, 50
MARKS = ("execute_context_0(0)_generation_16(16)", "execute_context_1(128)_generation_15(15)")
SOURCE = r"""
extern "C" __global__ void cross_device_reduce_1stage(float* x, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) x[row] = x[row] * 0.5f;
}
"""
REDUCE = cupy.RawKernel(SOURCE, "cross_device_reduce_1stage")


def reduce(x: torch.Tensor) -> torch.Tensor:
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        pointer, size = cupy.uint64(x.data_ptr()), x.numel()
        REDUCE(((size + 255) // 256,), (256,), (pointer, cupy.int32(size)))
    return x


def main() -> None:
    replays = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    torch.manual_seed(0)
    layers = [torch.randn(WIDTH, WIDTH, device="cuda") for _ in range(LAYERS)]
    tokens = torch.zeros(BATCH, WIDTH, device="cuda")

    def forward() -> torch.Tensor:
        x = tokens
        for layer in layers:
            x = reduce(torch.relu(x @ layer))
        return x.argmax(-1)

    for _ in range(3):
        forward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chosen = forward()
    for number in range(replays):
        is_eager = number % EAGER == EAGER - 1
        torch.cuda.nvtx.range_push(MARKS[is_eager])
        tokens[:, number % WIDTH] = 1.0
        if is_eager:
            forward().tolist()
        else:
            graph.replay()
            chosen.tolist()
        torch.cuda.nvtx.range_pop()


if __name__ == "__main__":
    main()
