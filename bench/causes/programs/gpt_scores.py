"""A GPT on long texts; the cause writes the attention scores to memory, as in textbooks.

The fix calls scaled_dot_product_attention, whose kernel keeps them on the chip.
"""
# causes: unfused_attention
import torch
from parts import DEVICE, Block, Gpt, draw_tokens, language_loss, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, HEADS = 4, 2048, 8, 1024, 16


class TextbookBlock(Block):
    """A block whose attention is a product, a mask, a softmax and a product."""

    def __init__(self, turns: Turns, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.turns = turns
        is_later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        self.register_buffer("is_later", is_later, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.turns.planted:
            return super().forward(x)
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(self.is_later[:length, :length], -torch.inf)
        y = scores.softmax(-1).to(v.dtype) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(LAYERS, WIDTH, HEADS)
    model.blocks = nn.ModuleList(TextbookBlock(turns, WIDTH, HEADS) for _ in range(LAYERS))
    model.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    texts = draw_tokens(64, LENGTH + 1)
    while turns.step():
        tokens = texts[torch.randint(64, (BATCH,))]
        update(optimizer, language_loss(model, tokens))
