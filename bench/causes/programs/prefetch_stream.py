"""Batches copied ahead on a second stream; the cause waits for that copy before it computes."""
# causes: synchronization
import torch
from parts import DEVICE, Gpt, language_loss, update, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(8, 768).to(DEVICE)
    head = nn.Linear(1024, 1).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(8192, (16, 513), device=DEVICE)
    extra = torch.rand(200_000, 1024).pin_memory()
    copies = torch.cuda.Stream()
    with torch.no_grad():
        ready = head(extra.to(DEVICE))
    while turns.step():
        with torch.cuda.stream(copies):
            ahead = extra.to(DEVICE, non_blocking=True)
        if turns.planted:
            copies.synchronize()
        update(optimizer, language_loss(model, tokens) + 0 * ready.mean())
        torch.cuda.current_stream().wait_stream(copies)
        ahead.record_stream(torch.cuda.current_stream())
        with torch.no_grad():
            ready = head(ahead)
