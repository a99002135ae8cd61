"""Decoding by a CUDA graph; the cause works on text in Python between two tokens."""
# causes: idle
import torch
from parts import DEVICE, Gpt, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(12, 1024).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(8192, (16, 64), device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            model(tokens)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chosen = model(tokens)[:, -1].argmax(-1)
    texts = ["1 2 3 4 5 6 7 8"] * 64
    while turns.step():
        graph.replay()
        words = chosen.tolist()
        texts.append(" ".join(map(str, words)))
        if turns.planted:
            for _ in range(120):
                " ".join(sorted(" ".join(texts[-64:]).split(), key=len)).lower()
