"""A GPT whose GELU is written out, as GPT-2's was; fix: `nn.GELU(approximate="tanh")`."""
# causes: unfused_elementwise
import math

import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from torch import nn
from turns import Turns


class WrittenGelu(nn.Module):
    """The formula of the paper."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(12, 1024, 16).to(DEVICE)
    written, given = WrittenGelu(), nn.GELU(approximate="tanh")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(16, 1025)
    while turns.step():
        for block in model.blocks:
            block.mlp[1] = written if turns.planted else given
        update(optimizer, language_loss(model, tokens))
