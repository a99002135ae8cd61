"""Decoding token by token; the cause launches each kernel from Python, the fix replays a graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, Gpt, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(16, 512).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(8192, (4, 32), device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            model(tokens)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chosen = model(tokens)[:, -1].argmax(-1)
    while turns.step():
        if turns.planted:
            with torch.no_grad():
                model(tokens)[:, -1].argmax(-1).tolist()
            continue
        graph.replay()
        chosen.tolist()
