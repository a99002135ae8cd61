"""A server of requests with an adapter each; the cause applies the adapters request by request."""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

REQUESTS, LAYERS, WIDTH, HEADS, RANK, PAST, WORDS = 12, 10, 1024, 16, 16, 512, 16384


class Adapted(nn.Module):
    """A linear layer with an adapter of low rank for each request."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.base = nn.Linear(before, after, bias=False)
        self.down = nn.Parameter(0.02 * torch.randn(REQUESTS, before, RANK))
        self.up = nn.Parameter(0.02 * torch.randn(REQUESTS, RANK, after))

    def forward(self, x: torch.Tensor, is_single: bool) -> torch.Tensor:
        y = self.base(x)
        if not is_single:
            return torch.baddbmm(y, x @ self.down, self.up)
        for number in range(REQUESTS):
            y[number] += x[number] @ self.down[number] @ self.up[number]
        return y


class Layer(nn.Module):
    """A transformer layer that reads the keys and values of the words before."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = Adapted(WIDTH, 3 * WIDTH), Adapted(WIDTH, WIDTH)
        self.wide, self.narrow = Adapted(WIDTH, 4 * WIDTH), Adapted(4 * WIDTH, WIDTH)
        shape = (2, REQUESTS, HEADS, PAST, WIDTH // HEADS)
        self.register_buffer("cache", torch.randn(shape))

    def forward(self, x: torch.Tensor, place: int, is_single: bool) -> torch.Tensor:
        qkv = self.qkv(self.norms[0](x), is_single).view(REQUESTS, 3, HEADS, 1, WIDTH // HEADS)
        self.cache[:, :, :, place] = qkv[:, 1:, :, 0].transpose(0, 1)
        seen = nn.functional.scaled_dot_product_attention(qkv[:, 0], self.cache[0], self.cache[1])
        x = x + self.out(seen.reshape(REQUESTS, 1, WIDTH), is_single)
        wide = nn.functional.gelu(self.wide(self.norms[1](x), is_single))
        return x + self.narrow(wide, is_single)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE, torch.bfloat16)
    embedding = nn.Embedding(WORDS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    words = torch.randint(WORDS, (REQUESTS, 1), device=DEVICE)
    answers: list[list[int]] = [[] for _ in range(REQUESTS)]
    while turns.step():
        x = embedding(words)
        for layer in layers:
            x = layer(x, len(answers[0]) % PAST, turns.planted)
        words = (x @ embedding.weight.T).argmax(-1)
        for answer, word in zip(answers, words.flatten().tolist(), strict=True):
            answer.append(word)
