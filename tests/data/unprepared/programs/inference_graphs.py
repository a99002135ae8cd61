"""Decoding with a captured CUDA graph: prefill, then one graph launch a token."""

import torch, step_log
from parts import Decoder

device = torch.device("cuda")
model = Decoder(4, 1024).to(device).bfloat16().eval()
static = torch.zeros(8, 64, dtype=torch.long, device=device)
with torch.inference_mode():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(static)
    for request in range(4):
        model(torch.randint(0, 4096, (8, 512), device=device))
        for token in range(40):
            step_log.begin()
            graph.replay()
            best = out[:, -1].argmax(-1)
            static.copy_(torch.roll(static, -1, 1))
            static[:, -1] = best
            best.tolist()
            step_log.end()
