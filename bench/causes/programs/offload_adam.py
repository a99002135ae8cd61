"""A transformer; the cause keeps the optimizer on the CPU and copies gradients and weights."""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, use_gpu
from turns import Turns

LAYERS, WIDTH, BATCH, LENGTH = 4, 512, 32, 513


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(LAYERS, WIDTH).to(DEVICE)
    copies = [torch.nn.Parameter(p.detach().cpu()) for p in model.parameters()]
    on_host = torch.optim.AdamW(copies, lr=1e-4, fused=True)
    on_device = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(BATCH, LENGTH)
    while turns.step():
        model.zero_grad(set_to_none=True)
        language_loss(model, tokens).backward()
        if not turns.planted:
            on_device.step()
            continue
        for copy, weight in zip(copies, model.parameters(), strict=True):
            copy.grad = weight.grad.cpu()
        on_host.step()
        with torch.no_grad():
            for copy, weight in zip(copies, model.parameters(), strict=True):
                weight.copy_(copy)
