"""CUDA graphs inside NVTX ranges, for the tables that project ranges onto the GPU."""

import torch
from torch.cuda import nvtx
from parts import Decoder

device = torch.device("cuda")
model = Decoder(2, 512).to(device).bfloat16().eval()
static = torch.zeros(4, 64, dtype=torch.long, device=device)
with torch.inference_mode():
    for _ in range(3):
        model(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(static)
    for step in range(12):
        nvtx.range_push("step")
        nvtx.range_push("prefill")
        model(torch.randint(0, 4096, (4, 128), device=device))
        nvtx.range_pop()
        nvtx.range_push("decode")
        for token in range(5):
            nvtx.range_push("only graph")
            graph.replay()
            nvtx.range_pop()
            nvtx.range_push("graph and kernels")
            graph.replay()
            best = out[:, -1].argmax(-1)
            nvtx.range_pop()
        nvtx.range_pop()
        nvtx.range_pop()
    torch.cuda.synchronize()
