"""Decoding by CUDA graphs, the last four kept; the cause has one for each number of requests.

The fix rounds the number of requests up to a multiple of 32.
"""
# causes: capture, graph_miss, idle
from collections import OrderedDict

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

LARGEST, LENGTH, LAYERS, WIDTH, HEADS, WORDS, KEPT, ROUND = 96, 512, 8, 1024, 16, 8192, 4, 32


class Layer(nn.Module):
    """A layer that attends to words of before, which stay in `keys` and `values`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        shape = (LARGEST, HEADS, LENGTH, WIDTH // HEADS)
        self.register_buffer("keys", torch.zeros(shape, dtype=torch.bfloat16))
        self.register_buffer("values", torch.zeros(shape, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norm1(x)).view(len(x), 3, HEADS, 1, -1)
        keys, values = self.keys[: len(x)], self.values[: len(x)]
        keys.index_copy_(2, place, heads[:, 1])
        values.index_copy_(2, place, heads[:, 2])
        y = nn.functional.scaled_dot_product_attention(heads[:, 0], keys, values)
        x = x + self.out(y.reshape(len(x), WIDTH))
        return x + self.mlp(self.norm2(x))


class Decoder:
    """Finds the next word of each request by a graph, which is captured when it is not there."""

    def __init__(self) -> None:
        self.embedding = nn.Embedding(WORDS, WIDTH).to(DEVICE).bfloat16()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE).bfloat16()
        self.words = torch.zeros(LARGEST, dtype=torch.long, device=DEVICE)
        self.place = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.graphs: OrderedDict[int, torch.cuda.CUDAGraph] = OrderedDict()
        self._decode(LARGEST)

    def _decode(self, requests: int) -> None:
        x = self.embedding(self.words[:requests])
        for layer in self.layers:
            x = layer(x, self.place)
        self.words[:requests] = (x @ self.embedding.weight.T).argmax(-1)

    def decode(self, requests: int) -> torch.Tensor:
        if requests not in self.graphs:
            if len(self.graphs) == KEPT:
                self.graphs.popitem(last=False)
            self.graphs[requests] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[requests]):
                self._decode(requests)
        self.graphs.move_to_end(requests)
        self.graphs[requests].replay()
        return self.words[:requests]


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    decoder, steps = Decoder(), 0
    while turns.step():
        requests = 60 + steps * 7 % 36
        decoder.place.fill_(steps % LENGTH)
        decoder.decode(requests if turns.planted else -(-requests // ROUND) * ROUND).tolist()
        steps += 1
