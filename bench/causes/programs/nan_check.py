"""A GPT; the cause tests each gradient for NaN on the host."""
# causes: synchronization, host_bound
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(16, 768).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(12, 513)
    while turns.step():
        optimizer.zero_grad(set_to_none=True)
        language_loss(model, tokens).backward()
        finite = [torch.isfinite(p.grad).all() for p in model.parameters()]
        if turns.planted:
            assert all(bool(each) for each in finite)
        optimizer.step()
