"""A GPT in fp32; the cause leaves its matrix products to units other than tensor cores."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, Gpt, draw_tokens, update, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(6, 768).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(8, 513)
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        update(optimizer, loss)
