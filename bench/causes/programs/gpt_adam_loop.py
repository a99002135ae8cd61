"""A GPT of many small layers; the cause is an optimizer that updates tensor by tensor."""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(24, 512).to(DEVICE)
    loop = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False, fused=False)
    fused = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(48, 513)
    while turns.step():
        update(loop if turns.planted else fused, language_loss(model, tokens))
