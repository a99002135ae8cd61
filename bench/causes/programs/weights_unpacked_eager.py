"""Requests sorted by a Llama of 4-bit weights; the cause unpacks a weight operation by operation.

The fix compiles the function that unpacks (as HQQ's backend "pytorch_compile" does): one kernel
instead of seven passes over the weight.
"""

# causes: unfused_elementwise
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import LlamaConfig, LlamaModel
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, GROUP, WORDS, KINDS = 8, 192, 6, 4096, 64, 8192, 40


def unpack(packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """A weight in bf16 from two numbers of 4 bits in each byte."""
    numbers = torch.stack([packed & 15, packed >> 4], -1).view(packed.shape[0], -1, GROUP)
    return ((numbers.to(torch.bfloat16) - zeros) * scales).view(packed.shape[0], -1)


class PackedLinear(nn.Module):
    """A linear layer whose weight is kept in 4 bits."""

    unpack = staticmethod(unpack)

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        groups = weight.detach().float().view(weight.shape[0], -1, GROUP)
        least, most = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scales = (most - least) / 15
        zeros = -least / scales
        numbers = (groups / scales + zeros).round().clamp(0, 15).to(torch.uint8)
        low, high = numbers.view(weight.shape[0], -1, 2).unbind(-1)
        self.register_buffer("packed", low | (high << 4))
        self.register_buffer("scales", scales.to(torch.bfloat16))
        self.register_buffer("zeros", zeros.to(torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, type(self).unpack(self.packed, self.scales, self.zeros))


def pack(module: nn.Module) -> None:
    """Replace all linear layers in a module."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, PackedLinear(child.weight))
        else:
            pack(child)


def make_model() -> nn.Module:
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=11008, num_hidden_layers=LAYERS,
        num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=1024,
        use_cache=False,
    )  # fmt: skip
    with torch.device(DEVICE):
        model = LlamaModel(config).to(torch.bfloat16).eval()
    pack(model.layers)
    return model


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    head = nn.Linear(WIDTH, KINDS, device=DEVICE, dtype=torch.bfloat16)
    compiled = torch.compile(unpack, dynamic=False)
    words = torch.randint(WORDS, (BATCH, LENGTH), device=DEVICE)
    counts = torch.zeros(KINDS, device=DEVICE)
    while turns.step():
        PackedLinear.unpack = staticmethod(unpack if turns.planted else compiled)
        last = model(input_ids=words).last_hidden_state[:, -1]
        counts += head(last).float().softmax(-1).sum(0)
