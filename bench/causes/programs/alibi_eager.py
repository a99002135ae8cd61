"""A language model with ALiBi in bf16; the cause writes attention out, the fix calls SDPA."""
# causes: unfused_attention
import torch
from parts import DEVICE, draw_tokens, language_loss, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 8, 1024, 1024, 16, 8, 8192


def attend_by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = (scores + bias).float().softmax(-1)
    return scores.to(v.dtype) @ v


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    bias = bias.expand(len(q), -1, -1, -1)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def make_bias() -> torch.Tensor:
    """The further back a word is, the less it counts; later words do not count at all."""
    slopes = 2.0 ** (-8 * torch.arange(1, HEADS + 1) / HEADS)
    places = torch.arange(LENGTH)
    apart = places[None, :] - places[:, None]
    bias = slopes[:, None, None] * apart
    return bias.masked_fill(apart > 0, float("-inf")).bfloat16()


class Layer(nn.Module):
    """A transformer layer whose attention is given."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, bias, attention):  # noqa: ANN001, ANN201
        shape = (*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        x = x + self.out(attention(q, k, v, bias).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """Words to the scores of the next word."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("bias", make_bias())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        attention = attend_by_hand if self.turns.planted else attend
        for layer in self.layers:
            x = layer(x, self.bias, attention)
        return self.head(self.norm(x))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Model(turns).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(BATCH, LENGTH + 1, WORDS)
    while turns.step():
        update(optimizer, language_loss(model, tokens))
