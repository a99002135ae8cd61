"""Products ranked for customers as a list; the cause copies their vectors when the turn of a request has come.

They come from pinned memory, in the stream that ranks. The fix copies those of the next requests on
a second stream while these are ranked.
"""
# causes: exposed_copy
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

REQUESTS, CANDIDATES, CONTENT = 56, 1024, 1280
WIDTH, HEADS, LAYERS, SHOWN = 512, 8, 10, 20
STORED = 3


class ListLayer(nn.Module):
    """Attention among the candidates of a request, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.to_out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.to_qkv(self.norm1(x)).view(REQUESTS, CANDIDATES, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.to_out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class ListRanker(nn.Module):
    """Vectors of texts and photographs to scores."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(CONTENT, WIDTH)
        self.layers = nn.Sequential(*(ListLayer() for _ in range(LAYERS)))
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.score(self.layers(self.enter(vectors.to(torch.bfloat16)))).squeeze(-1)


class Feeder:
    """The vectors of the candidates of one group of requests after the other, on the GPU."""

    def __init__(self, stored: torch.Tensor) -> None:
        self.stored, self.number = stored, 0
        self.side = torch.cuda.Stream()
        self.next: torch.Tensor | None = None

    def copy(self) -> torch.Tensor:
        vectors = self.stored[self.number % STORED]
        self.number += 1
        return vectors.to(DEVICE, non_blocking=True)

    def prefetch(self) -> None:
        with torch.cuda.stream(self.side):
            self.next = self.copy()

    def take_prefetched(self) -> torch.Tensor:
        if self.next is None:
            self.prefetch()
        main = torch.cuda.current_stream()
        main.wait_stream(self.side)
        vectors = self.next
        vectors.record_stream(main)
        self.prefetch()
        return vectors


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = ListRanker().to(DEVICE, torch.bfloat16).eval()
    stored = torch.empty(STORED, REQUESTS, CANDIDATES, CONTENT, pin_memory=True)
    for vectors in stored:
        vectors.copy_(torch.randn(REQUESTS, CANDIDATES, CONTENT, device=DEVICE))
    feeder = Feeder(stored)
    shown: list[list[int]] = []
    while turns.step():
        vectors = feeder.copy() if turns.planted else feeder.take_prefetched()
        shown = model(vectors).topk(SHOWN).indices.tolist()
    print(len(shown))
